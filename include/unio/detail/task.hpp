// unio/detail/task.hpp: the promise of a task, and how it is awaited.

#pragma once

#include <unio/detail/promise.hpp>

#include <concepts>
#include <exception>
#include <new>

namespace unio::inline v0_1 {

template <class T = void> class task;

namespace detail {

template <class Of, class Task> class child;

/// What may follow co_return in a task<T>; for a reference: the object it refers to, which must outlive the
/// task.
template <class T, class U>
concept can_result_in =
    (!std::is_reference_v<T> && std::constructible_from<T, U>) ||
    (std::is_reference_v<T> && std::is_lvalue_reference_v<T> == std::is_lvalue_reference_v<U> &&
     std::convertible_to<std::remove_reference_t<U>*, std::remove_reference_t<T>*>);

/// The part of a task's promise that does not depend on how its coroutine was compiled: the outcome.
template <class T> class task_state : public promise_base {
  using stored = std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, std::remove_cv_t<T>>;
  // Frames are aligned as operator new aligns. A value with a stricter alignment is placed inside a larger
  // buffer.
  static constexpr std::size_t frame_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  static constexpr bool is_over_aligned = alignof(stored) > frame_alignment;
  struct larger {
    alignas(frame_alignment) std::byte bytes[sizeof(stored) + alignof(stored) - frame_alignment];
  };

 public:
  task_state() noexcept {}
  ~task_state() {
    if (has_value()) stored_value().~stored();
  }
  template <class U>
    requires can_result_in<T, U>
  void emplace(U&& u) {
    if constexpr (std::is_reference_v<T>) {
      value_ = std::addressof(u);
    } else {
      ::new (static_cast<void*>(std::addressof(stored_value()))) stored(static_cast<U&&>(u));
    }
    set_has_value();
  }
  /// The value, where it lies; of a task<T&>: what it refers to. Preconditions: it has one.
  [[nodiscard]] std::remove_reference_t<T>& value() noexcept {
    if constexpr (std::is_reference_v<T>) {
      return *value_;
    } else {
      return stored_value();
    }
  }
  [[nodiscard]] T take() {
    rethrow_if_failed();
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*value_);
    } else {
      return static_cast<stored&&>(stored_value());
    }
  }

 private:
  [[nodiscard]] stored& stored_value() noexcept {
    if constexpr (is_over_aligned) {
      constexpr std::uintptr_t low = alignof(stored) - 1;
      return *reinterpret_cast<stored*>((reinterpret_cast<std::uintptr_t>(&value_) + low) & ~low);
    } else {
      return value_;
    }
  }
  union {
    std::conditional_t<is_over_aligned, larger, stored> value_;
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

/// A task's coroutine, and how a coroutine with an environment awaits it. The task is its own awaiter, so
/// that the awaiting frame holds nothing else.
template <class T> class task_core {
 public:
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise> auto await_suspend(std::coroutine_handle<Promise> h) noexcept {
    task_state<T>& child = child_.promise();
    child.set_environment(h.promise().get_environment());
    child.set_continuation(h);
    return transfer<Promise::makes_tail_calls>(child_);
  }
  T await_resume() { return child_.promise().take(); }

 protected:
  task_core() = default;
  explicit task_core(std::coroutine_handle<task_state<T>> child) noexcept : child_(child) {}
  std::coroutine_handle<task_state<T>> child_;
};

/// A task awaited by a coroutine of another kind, whose promise passes its environment on.
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

 private:
  std::coroutine_handle<task_state<T>> child_;
};

template <class T, bool Tail>
class task_promise_base : public task_state<T>, public affine_promise<task_promise_base<T, Tail>, Tail> {
 public:
  using affine_promise<task_promise_base, Tail>::await_transform;
  static constexpr bool makes_tail_calls = Tail;
  template <class U>
  task_core<U>& await_transform(task<U>&& t, await_location where = UNIO_AWAITED_HERE) noexcept {
    this->awaits_at(where);
    (void)t.child();
    task_core<U>& core = t;
    return core;
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
  /// A number of a task that yields one: it is converted, and what that loses is warned of, where it stands.
  void return_value(T value)
    requires std::is_arithmetic_v<T>
  {
    this->emplace(value);
  }
  template <class U = T>
    requires(can_result_in<T, U> &&
             !(std::is_arithmetic_v<T> && std::is_arithmetic_v<std::remove_cvref_t<U>>))
  void return_value(U&& value) {
    this->emplace(static_cast<U&&>(value));
  }
  /// A failure that is passed on as the result that it came in: an error that says what to write.
  template <class U>
    requires(!can_result_in<T, U> && is_result<U>)
  static void return_value(U&&) {
    static_assert(can_result_in<T, U>, "this is a result of another type: write co_return r.error(), or *r");
  }
};
template <bool Tail> class task_promise<void, Tail> : public task_promise_base<void, Tail> {
 public:
  static void return_void() noexcept {}
};

} // namespace detail

} // namespace unio
