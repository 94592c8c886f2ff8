// unio/detail/handle.hpp: how the operations of every handle are described.

#pragma once

#include <unio/handle.hpp>

namespace unio {

inline async_poll::async_poll(handle& h, readiness what, unio::deadline d) noexcept
    : io_operation(detail::poll_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d), what_(what) {}
inline async_read::async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d) noexcept
    : io_operation(detail::read_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      request_(request),
      source_(&h) {}
inline int async_read::at_once(io_handle& h, io_request<mutable_buffers> const& request,
                               unio::deadline const& d) noexcept {
  if (h.own_multiplexer() != nullptr || request.buffers.size() != 1) return not_at_once;
  return read_at_once(h.native_handle(), h.kind(), request.buffers.front(), d.is_zero());
}
inline async_write::async_write(io_handle& h, io_request<const_buffers> request, unio::deadline d) noexcept
    : io_operation(detail::write_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      request_(request) {}
inline async_barrier::async_barrier(io_handle& h, barrier_kind what, unio::deadline d) noexcept
    : io_operation(detail::barrier_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d), what_(what) {}

} // namespace unio
