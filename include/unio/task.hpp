// unio/task.hpp: a coroutine that is awaited, and letting others run.
//
//   task<T>          lazy; one type on every executor
//   awaited_as       how a task awaits what it could not await as it is: another library's coroutines, say
//   this_coro        what a coroutine knows of itself: its environment, its executor, its stop token
//   co_yield_now()   lets everything else that is ready run first
//   co_fork()        lets another thread run the rest, and the starter continue
//
// A library's public functions can return task<T> and live in a .cpp: no executor shows in the type.
//
// Thread safety  within a coroutine, which runs on one thread at a time

#pragma once

#include <unio/detail/standard_sender.hpp>
#include <unio/detail/task.hpp>
#include <unio/detail/yield.hpp>

namespace unio::inline v0_1 {

/// A coroutine that yields a T to the coroutine that awaits it. It begins when it is awaited, runs where that
/// one runs, and is awaited once.
///
/// Resumes        on the executor of its environment, whatever it awaits
/// Errors         co_await throws an exception that leaves it
/// Destruction    before it was awaited: nothing has run. While it is suspended, on the thread of its
///                executor: cancels what it waits for and drives its multiplexer until that has finished
/// Concurrency    one thread at a time, its executor's
/// Cost           a frame from the pool, or a parameter's allocator; awaiting and resuming: a jump each
/// Parameters     live in the frame as declared: what references and captures refer to must outlive it. They
///                end with the frame, that is with the task, and not when the coroutine returns
/// Moved-from     empty: can be assigned to and destroyed
/// Size           8 bytes
/// Source         *Coroutine-first asynchronous I/O* §6.3
template <class T>
class UNIO_TO_AWAIT UNIO_AWAIT_ELIDABLE task : private detail::task_core<T>,
                                               public detail::standard_sender<task<T>> {
  using detail::task_core<T>::child_;

 public:
  using value_type = T;
  using promise_type = detail::task_promise<T, UNIO_TAIL_CALLS>;

  task() = default;
  task(task&& other) noexcept : detail::task_core<T>(std::exchange(other.child_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      if (child_) child_.destroy();
      child_ = std::exchange(other.child_, nullptr);
    }
    return *this;
  }
  ~task() {
    if (child_) child_.destroy();
  }

  explicit operator bool() const noexcept { return static_cast<bool>(child_); }

  /// For coroutines of other types whose promise passes environments on.
  [[nodiscard]] detail::task_awaiter<T> operator co_await() && noexcept {
    return detail::task_awaiter<T>(child());
  }
  /// For code that starts it by other means: its coroutine, which the task still owns.
  [[nodiscard]] std::coroutine_handle<detail::task_state<T>> child() const noexcept {
    UNIO_EXPECTS(static_cast<bool>(child_), "an empty task was awaited");
    return child_;
  }

 private:
  template <class U, bool Tail> friend class detail::task_promise_base;
  template <class Of, class Task> friend class detail::child;
  explicit task(std::coroutine_handle<detail::task_state<T>> h) noexcept : detail::task_core<T>(h) {}
};

/// How coroutines of unio's, and all that starts one (run, when_all, timeout, task_group), await an `A`. To
/// be specialised only for a type that resumes no coroutine but those of its own library; whatever takes a
/// std::coroutine_handle<> is awaited as it is. A specialisation has
///
///   static auto adapt(A&& a);   // or A&, A const&: what may be awaited
///
/// and takes precedence over what `A` itself has.
///
/// Returns       what is awaited in its place: a task, or an object with await_ready, await_suspend and
///               await_resume, perhaps of an affine_awaitable. Its value is that of the co_await
/// Throws        what adapt() throws leaves the co_await
/// Resumes       on the executor of the coroutine's environment, on whatever thread the other library resumes
/// Cancellation  by what adapt() returns alone: an affine_awaitable, a task is given the environment's stop
///               token
/// Lifetime      what adapt() returns lives as long as the co_await. It should own what it was given, or
///               refer to what the caller awaits as an lvalue
/// Destruction   of a coroutine that waits destroys what adapt() has returned, which has to keep the other
///               library from resuming it
/// Concurrency   adapt() runs where the coroutine does
/// Cost          no allocation, and no frame; what adapt() returns is a part of the awaiting frame
template <class A> struct awaited_as;

/// `co_await co_yield_now()` queues the coroutine behind everything that its executor has to run: other
/// coroutines, posted work, timers and I/O. Computation between two awaits delays all of these. Awaits that
/// need not wait (channels, mutexes, buffered streams, I/O that completes at once) yield after 64.
///
/// Returns       nothing
/// Errors        none
/// Preconditions awaited by a coroutine that has an environment, as task<T> has
/// Cancellation  none: a coroutine that was asked to stop is resumed as well
/// Cost          one post; no allocation; no system call if one thread runs the executor
/// Runs as       executor_ref::post(). On inline_executor, which has no queue, it does nothing
[[nodiscard]] inline detail::yield_awaitable co_yield_now() noexcept { return {}; }

/// `co_await co_fork()` at the beginning of a task makes it one that another thread may take: whatever
/// started it continues, and the rest is queued as a new task.
///
///   task<int> fib(int n) {
///     co_await unio::co_fork();
///     if (n < 2) co_return n;
///     auto const [a, b] = co_await unio::when_all(fib(n - 1), fib(n - 2));
///     co_return a + b;
///   }
///
/// On a thread_pool each thread runs first what it has forked last, and an idle one takes the older half of
/// what another has. Otherwise as co_yield_now().
///
/// Runs as       executor_ref::fork()
[[nodiscard]] inline detail::fork_awaitable co_fork() noexcept { return {}; }

} // namespace unio

// A coroutine whose first or second parameter has get_frame_allocator() takes its frame from there.
template <class T, class... Parameters>
  requires unio::detail::gives_frames<Parameters...>
struct std::coroutine_traits<unio::task<T>, Parameters...> {
  using promise_type = unio::detail::with_given_frames<typename unio::task<T>::promise_type>;
};
