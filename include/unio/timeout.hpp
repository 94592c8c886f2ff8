// unio/timeout.hpp: a bound on how long something may take, and waiting for a moment, within a coroutine.
//
//   timeout(1s, read_request(s))   asks it to stop once the time is over
//   co_sleep(1s)                   waits
//
// An operation that takes a deadline of its own (co_read_for) needs neither. This is for what is composed of
// many.

#pragma once

#include <unio/timer_handle.hpp>
#include <unio/when.hpp>

namespace unio {

/// Within a coroutine: `co_await timeout(1s, x())` runs `x()`, which is asked to stop when the time is over.
///
/// Returns       where `x()` yields a result or an io_result: the same. condition::canceled becomes
///               condition::timed_out if it was this timer that asked first. Otherwise result<T>: the value,
///               or timed_out in place of a std::system_error of condition::canceled, on the same terms (a
///               reference as a pointer)
/// Errors        any other exception that leaves `x()`. What kept the timer from being started, in place of
///               timed_out
/// Values        beat the timer: what `x()` yields although it was asked to stop is what is returned
/// Bound         a span counts from the moment when `x()` first suspends; one that never does costs no timer.
///               Where the moment has passed, and with a span of zero, `x()` begins with the stop requested,
///               and yields what it has at once
/// Waits         for `x()` to have ended. One that does not look at its stop token is waited for
/// Runs on       the environment's multiplexer; where there is none, the thread's own
/// Cancellation  a stop is passed on, and then is no timeout
/// Destruction   as when_all
/// Cost          no allocation, no system call; a frame from the pool where `x()` is no task. A timer: O(log
///               pending)
/// Source        D2052R0 §4.1 (deadlines); Trio, move_on_after
template <detail::can_be_awaited A> [[nodiscard]] auto timeout(deadline bound, A&& x);

/// Waits, within a coroutine, for a span or until a time point. See async_wait.
[[nodiscard]] inline io_awaitable<async_wait> co_sleep(deadline moment) noexcept {
  timer_handle t(moment);
  return io_awaitable<async_wait>(async_wait(t));
}

} // namespace unio

#include <unio/detail/timeout.hpp>
