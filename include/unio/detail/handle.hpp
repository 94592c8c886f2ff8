// unio/detail/handle.hpp: handles, and how the operations of every handle are described.

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

/// A mapped file moved into a handle without a map becomes a plain file.
inline handle_kind handle::moved(handle_kind k) noexcept {
  return k == handle_kind::mapped_file ? handle_kind::file : k;
}
inline handle::handle(handle&& other) noexcept
    : multiplexer_(std::exchange(other.multiplexer_, nullptr)),
      fd_(std::exchange(other.fd_, -1)),
      kind_(moved(other.kind_)),
      caching_(other.caching_) {}
inline handle::~handle() {
  if (fd_ >= 0) (void)close();
}
inline io_multiplexer* handle::multiplexer() const noexcept {
  return multiplexer_ != nullptr ? multiplexer_ : &this_thread::multiplexer();
}
inline io_awaitable<async_close> handle::co_close() && noexcept {
  return io_awaitable<async_close>(async_close(std::move(*this)));
}

inline async_poll::async_poll(handle& h, readiness what, unio::deadline d) noexcept
    : void_operation(detail::poll_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d), what_(what) {}
inline async_read::async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d) noexcept
    : transfer_operation(detail::read_faces, h, request, d), source_(&h) {}
inline async_receive::async_receive(driver::operation_faces const& faces, io_handle& h, buffer_pool& pool,
                                    unio::deadline d) noexcept
    : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      pool_waiter(&was_granted),
      pool_(detail::state_of(pool)) {}
inline async_receive::async_receive(io_handle& h, buffer_pool& pool, unio::deadline d) noexcept
    : async_receive(detail::receive_faces, h, pool, d) {}
inline async_receive_many::async_receive_many(io_handle& h, buffer_pool& pool, unio::deadline d) noexcept
    : async_receive(detail::receive_many_faces, h, pool, d) {
  set_multishot();
}
inline async_receive::result_type async_receive::result() noexcept {
  int const r = outcome_value();
  if (r < 0) return failed();
  return {std::move(filled_), static_cast<std::size_t>(r)};
}
inline failure async_read::failed_at_once(io_handle const& h, int native_code) noexcept {
  if (native_code == -static_cast<int>(std::errc::resource_unavailable_try_again)) [[likely]]
    return {detail::to_error_code(native_code), detail::would_block_reading(h.native_handle())};
  return detail::failed(native_code, detail::read_faces.name, h.native_handle());
}
inline int async_read::at_once(io_handle& h, io_request<mutable_buffers> const& request,
                               unio::deadline const& d) noexcept {
  if (h.own_multiplexer() != nullptr || request.buffers.size() != 1) return not_at_once;
  return read_at_once(h.native_handle(), h.kind(), request.buffers.front(), d.is_zero());
}
inline async_write::async_write(io_handle& h, io_request<const_buffers> request, unio::deadline d) noexcept
    : transfer_operation(detail::write_faces, h, request, d) {}
inline async_barrier::async_barrier(handle& h, barrier_kind what, unio::deadline d) noexcept
    : void_operation(detail::barrier_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      what_(what) {}

} // namespace unio
