// unio/timer_handle.hpp: waiting for a moment, or for an event; and the operation that does nothing.
//
//   timer_handle   a moment to wait for
//   event_handle   a counter that one thread signals and another waits for
//   async_no_op    completes in a later turn of the loop

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

class event_handle;

/// Waits for a timer's moment.
///
/// Returns       nothing, once the moment has come
/// Errors        condition::timed_out or would_block if its own deadline comes first; canceled
/// Cost          no descriptor, no system call of its own: it bounds the multiplexer's sleep. O(log pending)
/// Runs as       the multiplexer's deadline queue · poll(2)
class async_wait;

/// A moment to wait for. Holds no descriptor: a million timers cost their own memory and nothing else.
///
/// Thread safety  distinct: safe; shared: no. A wait in flight keeps the moment it was described with
/// Lifetime       its multiplexer outlives it
/// Cost           none; expires_after() reads the clock
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
  UNIO_VERB_FORMS(wait, async_wait)

 private:
  static deadline from_now(deadline span) noexcept; // by the clock of operations, which a simulation replaces

  deadline moment_;
  io_multiplexer* multiplexer_ = nullptr;
};

/// Does nothing, and completes in a later turn of the loop: lets other coroutines run, and measures a driver.
///
/// Takes     a multiplexer, or none for the thread's own: `co_await unio::co_no_op()`
/// Returns   nothing
/// Errors    none; it completes before a cancel could matter
/// Lifetime  the multiplexer outlives it
/// Cost      an entry on a ring, otherwise no system call of its own; blocking: one
/// Runs as   io_uring NOP · the next turn of the loop · sched_yield(2)
class async_no_op;

/// Waits until an event is signalled, and takes the signals.
///
/// Returns       how often the event was signalled since the last wait (at least 1)
/// Errors        condition::timed_out, would_block, canceled
/// Cancellation  signals that were taken are returned
/// Cost          one system call when it is signalled
/// Runs as       io_uring READ · read(2) on readiness
UNIO_OPERATION(wait_event, std::uint64_t, (event_handle&, h))

/// A counter that can be waited for (eventfd(2)).
///
/// Thread safety  signal() from any thread and from signal handlers; waiting as io_handle
class UNIO_API event_handle : public handle {
 public:
  event_handle() = default;
  /// Errors: EMFILE, ENFILE.
  static result<event_handle> create() noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt. Errors: EBADF; EINVAL if it is no eventfd;
  /// as fcntl(2). On failure the descriptor is still the caller's.
  static result<event_handle> adopt(int fd) noexcept;

  /// wait, try_wait, …, co_wait, …: see async_wait_event.
  UNIO_VERB_FORMS(wait, async_wait_event)

  /// Wakes the waiting operation. Never waits: a full counter stays full. Errors: EINVAL for the largest
  /// count, 2^64 - 1; EBADF if it is closed. Cost: one system call.
  result<void> signal(std::uint64_t count = 1) noexcept;

 private:
  explicit event_handle(int fd) noexcept : handle(fd, handle_kind::event) {}
};

// ---- short functions --------------------------------------------------------------------------------------

inline async_wait::async_wait(timer_handle& t, unio::deadline d) noexcept
    : operation_with(detail::wait_faces, t, d), moment_(t.moment()) {}
UNIO_SENDER_FORMS(async_wait, (timer_handle&, t))
UNIO_SENDER_FORMS(async_no_op, (io_multiplexer*, m, = nullptr))
UNIO_FREE_VERB_FORMS(no_op, async_no_op, (io_multiplexer*, m, = nullptr))

} // namespace unio
