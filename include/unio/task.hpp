// unio/task.hpp: a coroutine that is awaited.
//
//   task<T>     lazy; one type, whoever runs it
//   this_coro   what a coroutine knows of itself: its environment, its executor, its stop token
//
// A library's public functions return task<T> and live in a .cpp: neither the executor nor what they are made of shows.

#pragma once

#include <unio/detail/promise.hpp>

#include <exception>
#include <new>

namespace unio {

template <class T = void> class task;

namespace detail {

/// What others see of the promise of a task, however its coroutine was compiled: what it has come to.
template <class T> class task_state : public promise_base {
  using stored = std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, T>;

 public:
  task_state() noexcept {}
  ~task_state() {
    if (has_value()) value_.~stored();
  }
  template <class U>
    requires std::constructible_from<T, U>
  void emplace(U&& u) {
    if constexpr (std::is_reference_v<T>) {
      value_ = std::addressof(u);
    } else {
      ::new (static_cast<void*>(std::addressof(value_))) stored(static_cast<U&&>(u));
    }
    set_has_value();
  }
  [[nodiscard]] T take() {
    rethrow_if_failed();
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*value_);
    } else {
      return static_cast<T&&>(value_);
    }
  }

 private:
  union {
    stored value_;
  };
};
template <> class task_state<void> : public promise_base {
 public:
  void take() const { rethrow_if_failed(); }
};

template <bool Tail> struct final_awaiter {
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise> auto await_suspend(std::coroutine_handle<Promise> h) noexcept {
    return transfer<Tail>(h.promise().next());
  }
  [[noreturn]] static void await_resume() noexcept { __builtin_unreachable(); }
};

/// A task that is being awaited. Refers to the task, which a temporary of the awaiting coroutine's is, or outlives it.
template <class T> class task_awaiter {
 public:
  explicit task_awaiter(std::coroutine_handle<task_state<T>> child) noexcept : child_(child) {}
  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    child_.promise().set_environment(e);
    child_.promise().set_continuation(h);
    return child_;
  }
  T await_resume() { return child_.promise().take(); }

 protected:
  std::coroutine_handle<task_state<T>> child_;
};

/// The same, by a promise that has given its environment to the child already.
template <class T, bool Tail> class plain_task_awaiter : task_awaiter<T> {
 public:
  plain_task_awaiter(std::coroutine_handle<task_state<T>> child, environment const& e) noexcept
      : task_awaiter<T>(child) {
    child.promise().set_environment(e);
  }
  static constexpr bool await_ready() noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> h) noexcept {
    this->child_.promise().set_continuation(h);
    return transfer<Tail>(this->child_);
  }
  using task_awaiter<T>::await_resume;
};

template <class T, bool Tail>
class task_promise_base : public task_state<T>, public affine_promise<task_promise_base<T, Tail>, Tail> {
 public:
  using affine_promise<task_promise_base, Tail>::await_transform;
  template <class U> plain_task_awaiter<U, Tail> await_transform(task<U>&& t) noexcept {
    return {t.child(), promise_base::get_environment()};
  }
  static std::suspend_always initial_suspend() noexcept { return {}; }
  static final_awaiter<Tail> final_suspend() noexcept { return {}; }
  task<T> get_return_object() noexcept {
    static_assert(sizeof(task_promise_base) == sizeof(task_state<T>) &&
                  alignof(task_promise_base) == alignof(task_state<T>));
    return task<T>(std::coroutine_handle<task_state<T>>::from_promise(*this));
  }
  void unhandled_exception() noexcept { this->fail(std::current_exception()); }
};

template <class T, bool Tail> class task_promise : public task_promise_base<T, Tail> {
 public:
  template <class U = T>
    requires std::constructible_from<T, U>
  void return_value(U&& value) {
    this->emplace(static_cast<U&&>(value));
  }
};
template <bool Tail> class task_promise<void, Tail> : public task_promise_base<void, Tail> {
 public:
  static void return_void() noexcept {}
};

} // namespace detail

/// A coroutine that yields a T to the coroutine that awaits it. It begins when it is awaited, runs where that one runs, and
/// is awaited once.
///
/// Resumes        on the executor of its environment, whatever it awaits
/// Errors         an exception that leaves it is thrown by co_await
/// Destruction    before it was awaited: nothing has run. While it is suspended: cancels the operation that it waits for
///                and drives that one's multiplexer until it has finished; on the thread of its executor
/// Concurrency    one thread at a time, its executor's
/// Cost           a frame from the pool; awaiting and going on is a jump each, in constant stack
/// Parameters     live in the frame as they were declared: references, and what a lambda has captured, must outlive the task
/// Moved-from     empty: can be assigned to and destroyed
/// Size           8 bytes
/// Source         *Coroutine-first asynchronous I/O* §6.3
template <class T> class [[nodiscard]] UNIO_AWAIT_ELIDABLE task {
 public:
  using value_type = T;
  using promise_type = detail::task_promise<T, UNIO_TAIL_CALLS>;

  task() = default;
  task(task&& other) noexcept : child_(std::exchange(other.child_, nullptr)) {}
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

  /// For coroutines of any type whose promise hands environments on. Those of task do without.
  [[nodiscard]] detail::task_awaiter<T> operator co_await() && noexcept {
    return detail::task_awaiter<T>(child());
  }

  /// For those who start it themselves: its coroutine, which stays the task's own.
  [[nodiscard]] std::coroutine_handle<detail::task_state<T>> child() const noexcept {
    UNIO_EXPECTS(child_ != nullptr, "an empty task was awaited");
    return child_;
  }

 private:
  template <class U, bool Tail> friend class detail::task_promise_base;
  explicit task(std::coroutine_handle<detail::task_state<T>> h) noexcept : child_(h) {
    if (!h)
      __builtin_unreachable(); // so that Clang sees that the frame is always destroyed, and makes it part of the caller's
  }
  std::coroutine_handle<detail::task_state<T>> child_;
};

} // namespace unio
