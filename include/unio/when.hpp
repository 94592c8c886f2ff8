// unio/when.hpp: several things at once, within a coroutine.
//
//   when_all(a, b, …)            all of them: their values
//   when_all(tasks)              the same for a range of tasks
//   when_all_outcomes(a, b, …)   all of them: their values or exceptions
//   when_all_succeed(a, b, …)    all of them: the values in their results, or the first failure, which stops
//                                the others
//   when_all_succeed(tasks)
//   when_any(a, b, …)            the first that succeeds; the others are asked to stop
//   when_any(tasks)
//   race(a, b, …)                the first that ends, with or without success; the others are asked to stop
//   race(tasks)
//   take_outcome(task)           the outcome of one task of a range
//   timeout(1s, task)            asks it to stop once the time is over
//   co_sleep(1s)                 waits
//
// Each takes tasks and other awaitables, and resumes when all of them have ended. An operation that takes a
// deadline of its own (co_read_for) needs no timeout.
//
// Thread safety  what these functions make is awaited once, by one coroutine. The tasks run on its executor,
//                or elsewhere (run_on): they may end on any threads

#pragma once

#include <unio/detail/as_task.hpp>
#include <unio/run.hpp>
#include <unio/timer_handle.hpp>

#include <tuple>

namespace unio::inline v0_1 {

/// Within a coroutine: `auto [a, b] = co_await when_all(x(), y())` runs both at once and waits for both.
///
/// Effects       starts them in this order, until each suspends, on the awaiting coroutine's executor
/// Returns       std::tuple of their values without those of type void; nothing if all are void
/// Errors        the first exception asks the others to stop, and is thrown once all have ended; later
///               exceptions are dropped (when_all_outcomes returns them). An error in a result<T> is a value,
///               and stops nothing (with when_all_succeed it does)
/// Resumes       on the executor of the awaiting coroutine, when the last has ended
/// Cancellation  a stop is passed on to all of them
/// Destruction   of the awaiting coroutine asks all of them to stop and destroys them; on the thread of its
///               executor. If that has several threads, stop it and let it end instead
/// Lifetime      lvalues, and what cannot be moved, are referred to: await at once. A task that has ended
///               keeps its frame, and what it was passed by value, until all have ended
/// Cost          nothing for a task; for anything else a frame. No lock, unless a stop is possible
/// Source        P2300 §4.20.12; cppcoro, when_all
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all(A&&... a);

/// The same for tasks in a container or a span, which stay there: their values, in order, to be moved out.
///
/// Returns   task_values<…>, a range; nothing for task<>. `co_await` into a variable before looping over it
/// Lifetime  the tasks outlive what is returned
/// Cost      one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_all(R&& tasks);

/// Waits for all of them; a failure stops none of the others. Otherwise as when_all.
///
/// Returns  std::tuple<task_outcome<T>...>: each one's value, or the exception that left it
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all_outcomes(A&&... a);

/// Waits until all of them have succeeded, or the first has failed: then it asks the others to stop, and
/// waits for them. Otherwise as when_all.
///
///   auto const both = co_await when_all_succeed(a.co_read(x), b.co_read(y));
///   if (!both.has_value()) co_return both.error();
///   auto const& [from_a, from_b] = *both;
///
/// Success  no exception; if the value is a result, an io_result or another std::expected, a value in it
/// Returns  result<std::tuple<…>>: the values, those in results without the result, and without those of type
///          void; result<void> if all are void
/// Errors   the first failure: its exception is thrown, or its error returned, which converts to
///          std::error_code. What the others yield is dropped then, also what they have read: when_all
///          keeps it
/// Source   P2300 §4.20.12, where an error is no value
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all_succeed(A&&... a);

/// The same for tasks in a container or a span, which stay there: take_outcome() gives what each yielded, if
/// one of them has failed.
///
/// Returns   result<task_values<…>>, a range of the values; result<void> if they are void
/// Lifetime  the tasks outlive what is returned
/// Cost      one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_all_succeed(R&& tasks);

/// Waits for the first of them that succeeds, asks the others to stop, and waits for them. Otherwise as
/// when_all.
///
/// Success  no exception; if the value is a result, an io_result or another std::expected, a value in it
/// Returns  when_any_result<T...>: which was first, and all outcomes: one that could no longer be stopped has
///          its value there, so bytes that it has read are not lost
/// Errors   if none succeeds, the first failure: its exception is thrown, or its value returned. So it goes
///          on after a time limit that was exceeded: `race` does not
/// Source   P2300 §4.20.12, where an error is no value; P0159 §2.9 for the name
template <detail::can_be_awaited... A> [[nodiscard]] auto when_any(A&&... a);

/// The same for tasks in a container or a span, which stay there: take_outcome() gives the others' outcomes.
///
/// Returns        when_any_of_result<T>: which was first, and its value
/// Preconditions  the range is not empty
/// Cost           one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_any(R&& tasks);

/// Waits for the first of them that ends, whether it succeeds or fails, asks the others to stop, and waits
/// for them. Otherwise as when_all.
///
///   auto const first = co_await race(timeout(grace, connections.co_join()), signals.co_wait());
///
/// Returns  when_any_result<T...>: which ended first, and all outcomes: one that could no longer be stopped
///          has its value there, so bytes that it has read are not lost
/// Errors   an exception of the first to end is thrown; an error in its result is a value
/// Source   P0159 §2.9; JavaScript's Promise.race and tokio's select! for the meaning
template <detail::can_be_awaited... A> [[nodiscard]] auto race(A&&... a);

/// The same for tasks in a container or a span, which stay there: take_outcome() gives the others' outcomes.
///
/// Returns        when_any_of_result<T>: which ended first, and its value
/// Preconditions  the range is not empty
/// Cost           one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto race(R&& tasks);

/// What when_any(a, b, …) and race(a, b, …) yield.
///
/// Thread safety  distinct: safe; shared: any number of readers
template <class... T> struct when_any_result {
  std::size_t index; ///< of the first to succeed, or, if none did, to fail; race: to end
  std::tuple<task_outcome<T>...> outcomes; ///< of all, also of those that were asked to stop

  /// Calls `f(value)` with the value at `index`, `f()` if that is void. Returns what `f` does, of one type
  /// for all.
  template <class F> decltype(auto) visit(F&& f) { return visit_from<0>(f); }
  /// The value at `index`, if all are of the same type.
  [[nodiscard]] decltype(auto) value()
    requires(!std::is_void_v<T> && ...);

 private:
  template <std::size_t I, class F> decltype(auto) visit_from(F& f);
};

/// The values of a range of tasks that have ended: an input range of T, which the tasks yield, or a result
/// of it. Dereferencing moves a value out, once.
template <class Iterator, class T> class task_values;

/// What when_any(tasks) and race(tasks) yield: the index of the first task, as in when_any_result, and its
/// value.
template <class T> struct when_any_of_result {
  std::size_t index;
  T value;
};
template <> struct when_any_of_result<void> {
  std::size_t index;
};

/// Moves the outcome out of a task of a range, and returns it. Preconditions: it has ended, and its value was
/// not taken. Cost: one move.
template <class T> [[nodiscard]] task_outcome<T> take_outcome(task<T>& t) noexcept;

/// Within a coroutine: `co_await timeout(1s, x())` runs `x()`, which is asked to stop when the time is over.
///
/// Returns       if `x()` yields a result or an io_result: the same, with condition::timed_out for
///               condition::canceled if this timer requested the stop. Otherwise result<T>: the value (a
///               reference as a pointer), or timed_out. A std::system_error of condition::canceled that
///               leaves `x()` is timed_out likewise, whatever it yields
/// Errors        any other exception that leaves `x()`. If the timer cannot start: why, in place of timed_out
/// Values        beat the timer: what `x()` yields although it was asked to stop is returned, a success of a
///               result<void> too. A task<> yields nothing that could be lost: if the timer came first it has
///               timed out, also if it ended as if nothing had happened (it had caught the cancellation)
/// Bound         a span counts from the moment `x()` first suspends; if it never does, there is no timer. If
///               the moment has passed, or the span is zero, `x()` begins with the stop requested
/// Waits         until `x()` has ended, even if it ignores its stop token
/// Runs on       the environment's multiplexer; without one, the thread's own
/// Cancellation  a stop is passed on, and then is no timeout
/// Destruction   as when_all
/// Cost          no allocation, no system call; a frame if `x()` is no task. A timer: O(log pending)
/// Source        D2052R0 §4.1 (deadlines); Trio, move_on_after
template <detail::startable A> auto timeout(deadline bound, A&& x);

/// Waits, within a coroutine, for a span or until a time point. See async_wait.
inline io_awaitable<async_wait> co_sleep(deadline moment) noexcept {
  timer_handle t(moment);
  return io_awaitable<async_wait>(async_wait(t));
}

} // namespace unio

#include <unio/detail/timeout.hpp>
#include <unio/detail/when.hpp>
