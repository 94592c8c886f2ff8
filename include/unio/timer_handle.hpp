// unio/timer_handle.hpp: waiting for a moment; and the operation that does nothing.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class timer_handle;

/// Waits for a timer's moment.
///
/// Returns       nothing, once the moment has come
/// Errors        condition::timed_out or would_block if its own deadline comes first; canceled
/// Cost          no descriptor, no system call of its own: the multiplexer sleeps no longer than its earliest
///               deadline. O(log pending)
/// Runs as       the multiplexer's deadline queue · poll(2)
class UNIO_API async_wait : public io_operation, public detail::standard_sender<async_wait> {
 public:
  using result_type = io_result<void>;
  async_wait() = default;
  explicit async_wait(timer_handle& t, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
  [[nodiscard]] unio::deadline moment() const noexcept { return moment_; }
  /// The same on the steady clock, in ns: known from start() on.
  [[nodiscard]] std::int64_t due() const noexcept { return due_; }

 private:
  friend struct detail::operation_access;
  unio::deadline moment_;
  std::int64_t due_ = -1;
};

/// A moment to wait for. Holds no descriptor: a million timers cost their own memory and nothing else.
///
/// Thread safety  distinct: safe; shared: no. A wait in flight keeps the moment it was described with
class UNIO_API timer_handle {
 public:
  timer_handle() = default;
  /// A span counts from the start of each wait; a time point is a moment.
  explicit timer_handle(deadline moment, io_multiplexer* m = nullptr) noexcept
      : moment_(moment), multiplexer_(m) {}

  void expires_at(deadline moment) noexcept { moment_ = moment; }
  /// From now.
  template <class Rep, class Period> void expires_after(std::chrono::duration<Rep, Period> d) noexcept {
    moment_ = from_now(d);
  }
  [[nodiscard]] deadline moment() const noexcept { return moment_; }
  [[nodiscard]] io_multiplexer* own_multiplexer() const noexcept { return multiplexer_; }
  void set_multiplexer(io_multiplexer* m) noexcept { multiplexer_ = m; }

  /// wait, try_wait, …, co_wait, …: see async_wait.
  UNIO_VERB_FORMS(wait, async_wait, ())

 private:
  // By the clock that operations use, which a simulation replaces.
  static deadline from_now(deadline span) noexcept;

  deadline moment_;
  io_multiplexer* multiplexer_ = nullptr;
};

inline async_wait::async_wait(timer_handle& t, unio::deadline d) noexcept
    : io_operation(detail::wait_faces, handle_kind::none, -1, t.own_multiplexer(), d), moment_(t.moment()) {}
UNIO_SENDER_FORMS(async_wait, (timer_handle & t), t)

/// Does nothing, and completes in a later turn of the loop. Lets other coroutines run first, and measures the
/// overhead of a driver.
///
/// Errors   none; it completes before a cancel could matter
/// Runs as  io_uring NOP · the next turn of the loop · sched_yield(2)
class UNIO_API async_no_op : public io_operation, public detail::standard_sender<async_no_op> {
 public:
  using result_type = io_result<void>;
  explicit async_no_op(io_multiplexer* m = nullptr, unio::deadline d = {}) noexcept
      : io_operation(detail::no_op_faces, handle_kind::none, -1, m, d) {}
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
};
UNIO_SENDER_FORMS(async_no_op, (io_multiplexer * m), m)

/// async_no_op in the other two spellings.
inline io_result<void> no_op() noexcept { return detail::blocking(async_no_op()); }
[[nodiscard]] inline io_awaitable<async_no_op> co_no_op(io_multiplexer* m = nullptr) noexcept {
  return io_awaitable<async_no_op>(async_no_op(m));
}

} // namespace unio
