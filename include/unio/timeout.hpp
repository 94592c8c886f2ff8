// unio/timeout.hpp: bounding how long something may take, and sleeping, within a coroutine.
//
//   timeout(1s, read_request(s))   asks it to stop once the time is over
//   co_sleep(1s)                   waits
//
// An operation that takes a deadline of its own (co_read_for) needs neither.
//
// Thread safety  within a coroutine, which runs on one thread at a time

#pragma once

#include <unio/timer_handle.hpp>
#include <unio/when.hpp>

namespace unio::inline v0_1 {

/// Within a coroutine: `co_await timeout(1s, x())` runs `x()`, which is asked to stop when the time is over.
///
/// Returns       if `x()` yields a result or an io_result: the same, with condition::timed_out for
///               condition::canceled if this timer requested the stop. Otherwise result<T>: the value (a
///               reference as a pointer), or timed_out likewise for a std::system_error of
///               condition::canceled
/// Errors        any other exception that leaves `x()`. If the timer cannot start: why, in place of timed_out
/// Values        beat the timer: what `x()` yields although it was asked to stop is returned
/// Bound         a span counts from the moment `x()` first suspends; if it never does, there is no timer. If
///               the moment has passed, or the span is zero, `x()` begins with the stop requested
/// Waits         until `x()` has ended, even if it ignores its stop token
/// Runs on       the environment's multiplexer; without one, the thread's own
/// Cancellation  a stop is passed on, and then is no timeout
/// Destruction   as when_all
/// Cost          no allocation, no system call; a frame if `x()` is no task. A timer: O(log pending)
/// Source        D2052R0 §4.1 (deadlines); Trio, move_on_after
template <detail::startable A> [[nodiscard]] auto timeout(deadline bound, A&& x);

/// Waits, within a coroutine, for a span or until a time point. See async_wait.
[[nodiscard]] inline io_awaitable<async_wait> co_sleep(deadline moment) noexcept {
  timer_handle t(moment);
  return io_awaitable<async_wait>(async_wait(t));
}

} // namespace unio

#include <unio/detail/timeout.hpp>
