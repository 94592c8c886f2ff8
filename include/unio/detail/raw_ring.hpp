// unio/detail/raw_ring.hpp: how an entry of a ring is described, and its spellings.

#pragma once

#include <unio/extend/raw_ring.hpp>

#include <utility>

namespace unio::inline v0_1 {

namespace detail {

/// What there is of it whatever fills the entry.
class UNIO_API raw_ring_operation : public io_operation {
 public:
  using result_type = io_result<ring_completion>;
  [[nodiscard]] result_type result() const noexcept;

 protected:
  using filler = void (*)(raw_ring_operation&, io_uring_sqe&) noexcept;
  raw_ring_operation() = default;
  raw_ring_operation(filler f, handle_kind kind, int fd, io_multiplexer* m, unio::deadline d) noexcept;

 private:
  friend struct raw_ring_access;
  filler fill_ = nullptr;
  unsigned flags_ = 0;
  bool refused_ = false;
  bool has_value_ = false; // and another completion follows
};

} // namespace detail

template <std::invocable<io_uring_sqe&> Fill>
class async_raw_ring : public detail::raw_ring_operation,
                       public detail::standard_sender<async_raw_ring<Fill>> {
 public:
  async_raw_ring() = default; // not there if `Fill` has no such constructor
  explicit async_raw_ring(Fill fill, unio::deadline d = {}, io_multiplexer* m = nullptr) noexcept
      : raw_ring_operation(&fill_in, handle_kind::none, -1, m, d), fill_(std::move(fill)) {}
  async_raw_ring(handle const& h, Fill fill, unio::deadline d = {}, io_multiplexer* m = nullptr) noexcept
      : raw_ring_operation(&fill_in, h.kind(), h.native_handle(),
                           h.own_multiplexer() != nullptr ? h.own_multiplexer() : m, d),
        fill_(std::move(fill)) {}

 private:
  static void fill_in(detail::raw_ring_operation& op, io_uring_sqe& entry) noexcept {
    (void)static_cast<async_raw_ring&>(op).fill_(entry);
  }
  Fill fill_;
};

template <std::invocable<io_uring_sqe&> Fill>
using atomic_async_raw_ring = detail::atomic_form<async_raw_ring<Fill>>;

template <std::invocable<io_uring_sqe&> Fill>
inline io_result<ring_completion> raw_ring(Fill fill, deadline d, io_multiplexer* m) noexcept {
  return detail::blocking(
      async_raw_ring<Fill>(std::move(fill), d, m != nullptr ? m : &this_thread::multiplexer()));
}
template <std::invocable<io_uring_sqe&> Fill>
inline io_result<ring_completion> raw_ring(handle const& h, Fill fill, deadline d,
                                           io_multiplexer* m) noexcept {
  bool const has_one = h.own_multiplexer() != nullptr || m != nullptr;
  return detail::blocking(
      async_raw_ring<Fill>(h, std::move(fill), d, has_one ? m : &this_thread::multiplexer()));
}
template <std::invocable<io_uring_sqe&> Fill>
inline io_awaitable<async_raw_ring<Fill>> co_raw_ring(Fill fill, deadline d, io_multiplexer* m) noexcept {
  return io_awaitable<async_raw_ring<Fill>>(std::in_place, std::move(fill), d, m);
}
template <std::invocable<io_uring_sqe&> Fill>
inline io_awaitable<async_raw_ring<Fill>> co_raw_ring(handle const& h, Fill fill, deadline d,
                                                      io_multiplexer* m) noexcept {
  return io_awaitable<async_raw_ring<Fill>>(std::in_place, h, std::move(fill), d, m);
}

} // namespace unio
