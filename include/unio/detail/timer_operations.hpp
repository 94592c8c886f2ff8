// unio/detail/timer_operations.hpp: waiting for a moment, and doing nothing; unio/timer_handle.hpp says what
// they do.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class timer_handle;

class UNIO_API async_wait : public io_operation, public detail::standard_sender<async_wait> {
 public:
  using result_type = io_result<void>;
  async_wait() = default;
  explicit async_wait(timer_handle& t, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
  [[nodiscard]] unio::deadline moment() const noexcept { return moment_; }
  /// The same on the steady clock, in ns: known once started.
  [[nodiscard]] std::int64_t due() const noexcept { return due_; }

 private:
  friend struct detail::operation_access;
  unio::deadline moment_;
  std::int64_t due_ = -1;
};

class UNIO_API async_no_op : public io_operation, public detail::standard_sender<async_no_op> {
 public:
  using result_type = io_result<void>;
  explicit async_no_op(io_multiplexer* m = nullptr, unio::deadline d = {}) noexcept
      : io_operation(detail::no_op_faces, handle_kind::none, -1, m, d) {}
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
};

} // namespace unio
