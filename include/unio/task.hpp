// unio/task.hpp: a coroutine that is awaited.
//
//   task<T>     lazy; one type on every executor
//   this_coro   what a coroutine knows of itself: its environment, its executor, its stop token
//
// A library's public functions can return task<T> and live in a .cpp: no executor shows in the type.

#pragma once

#include <unio/detail/standard_sender.hpp>
#include <unio/detail/task.hpp>

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
/// Parameters     live in the frame as declared: what references and captures refer to must outlive it
/// Moved-from     empty: can be assigned to and destroyed
/// Size           8 bytes
/// Source         *Coroutine-first asynchronous I/O* §6.3
template <class T>
class [[nodiscard]] UNIO_AWAIT_ELIDABLE task : private detail::task_core<T>,
                                               public detail::standard_sender<task<T>> {
  using detail::task_core<T>::child_;

 public:
  using value_type = T;
  using promise_type = detail::task_promise<T, UNIO_TAIL_CALLS>;

  task() = default;
  task(task&& other) noexcept : detail::task_core<T>(std::exchange(other.child_, nullptr)) {}
  task& operator=(task&& other) noexcept;
  ~task();

  explicit operator bool() const noexcept { return static_cast<bool>(child_); }

  /// For coroutines of other types whose promise passes environments on.
  [[nodiscard]] detail::task_awaiter<T> operator co_await() && noexcept;
  /// For code that starts it by other means: its coroutine, which the task still owns.
  [[nodiscard]] std::coroutine_handle<detail::task_state<T>> child() const noexcept;

 private:
  template <class U, bool Tail> friend class detail::task_promise_base;
  template <class Of, class Task> friend class detail::child;
  explicit task(std::coroutine_handle<detail::task_state<T>> h) noexcept : detail::task_core<T>(h) {}
};

} // namespace unio

#include <unio/detail/task_members.hpp>
