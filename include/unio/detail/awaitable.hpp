// unio/detail/awaitable.hpp: what can be awaited, in which way, and what the compiler says of all else.
//
//   affine_awaitable   it is given the environment
//   awaiter_of         what is awaited of an awaitable: of its operator co_await, of awaited_as
//   what_to_await      one error, which says what to write

#pragma once

#include <unio/executor.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

/// Can be awaited affinely: it resumes the coroutine on the environment's executor. `await_ready(environment
/// const&)` is called instead of await_ready() if there is one.
///
/// Source  *Coroutine-first asynchronous I/O* §6
template <class A>
concept affine_awaitable = requires(A& a, std::coroutine_handle<> h, environment const& e) {
  a.await_suspend(h, e);
  a.await_resume();
};

template <class A> struct awaited_as; // unio/task.hpp

namespace detail {

/// Whether awaited_as says how it is awaited, and of what then is.
template <class A>
concept is_adapted = requires { awaited_as<std::remove_cvref_t<A>>::adapt(std::declval<A>()); };
template <class A> using adapted_t = decltype(awaited_as<std::remove_cvref_t<A>>::adapt(std::declval<A>()));

template <class A> decltype(auto) awaiter_of(A&& a) noexcept {
  if constexpr (requires { static_cast<A&&>(a).operator co_await(); }) {
    return static_cast<A&&>(a).operator co_await();
  } else if constexpr (requires { operator co_await(static_cast<A&&>(a)); }) {
    return operator co_await(static_cast<A&&>(a));
  } else {
    return static_cast<A&&>(a);
  }
}
/// For its type alone: adapted_awaiter keeps what this would lead to.
template <class A>
  requires is_adapted<A>
decltype(awaiter_of(std::declval<adapted_t<A>>())) awaiter_of(A&&) noexcept;

template <class A>
concept can_be_awaited = requires(A&& a) { awaiter_of(static_cast<A&&>(a)).await_resume(); };

enum class not_awaited : unsigned char { unmoved, time, operation, function, tasks, result, sender, other };

template <class T>
concept is_time = requires {
  typename T::rep;
  typename T::period;
} || requires {
  typename T::clock;
  typename T::duration;
};
template <class T>
concept is_sender =
    requires { typename T::sender_concept; } || requires { typename T::completion_signatures; };
template <class T>
concept is_operation = requires(T& t) {
  typename T::result_type;
  t.poll();
  t.finished();
};
/// A function, or a lambda, that returns something to await.
template <class T>
concept is_function = requires(T& t) {
  { t() } -> can_be_awaited;
};
/// One with parameters.
template <class T>
concept has_parameters = std::is_function_v<std::remove_pointer_t<T>> || requires { &T::operator(); };
template <class T>
concept holds_tasks = requires(T& t) {
  typename std::remove_cvref_t<decltype(*t.begin())>::promise_type;
  requires can_be_awaited<std::remove_cvref_t<decltype(*t.begin())>>;
};
template <class T>
concept is_result = requires(T& t) {
  t.has_value();
  t.error();
};

template <class A> consteval not_awaited why_not_awaited() noexcept {
  using type = std::remove_cvref_t<A>;
  if (can_be_awaited<type>) return not_awaited::unmoved;
  if (is_time<type>) return not_awaited::time;
  if (is_operation<type>) return not_awaited::operation;
  if (is_function<type> || has_parameters<type>) return not_awaited::function;
  if (holds_tasks<type>) return not_awaited::tasks;
  if (is_result<type>) return not_awaited::result;
  return is_sender<type> ? not_awaited::sender : not_awaited::other;
}

/// One error: what to write in place of what is awaited, or is to be started. tests/messages shows each. A
/// class, because it says so where it is needed: Clang shows the line of the program.
template <class A> struct what_to_await {
  static constexpr not_awaited why = why_not_awaited<A>();
  static_assert(
      why != not_awaited::unmoved,
      "this is awaited once, so it must be moved: write std::move(task), or call what makes it here");
  static_assert(why != not_awaited::time,
                "a span or a moment is not awaitable: write unio::co_sleep(1s) in place of 1s");
  static_assert(why != not_awaited::operation,
                "an async_ operation is for receivers: write co_read(...) in place of async_read(...)");
  static_assert(why != not_awaited::function,
                "a function is not awaitable, but what it returns is: call it, write f() in place of f");
  static_assert(why != not_awaited::tasks,
                "tasks in a container stay there: write when_all(tasks), of a variable that is not const");
  static_assert(why != not_awaited::result,
                "this is a result already: write co_read(...) in place of read(...), and await it once");
  static_assert(
      why != not_awaited::sender,
      "a sender can be awaited where <unio/execution.hpp> is included, and as as_awaitable(sender)");
  static_assert(why != not_awaited::other,
                "this cannot be awaited: it is no task, no operation (co_...), and has no operator co_await");
};

/// Stands for the value of what cannot be awaited, so that there is one error.
struct any_value {
  template <class T> operator T() const; // NOLINT
};
template <class A> struct value_if_moved {
  using type = any_value;
};
template <class A>
  requires can_be_awaited<std::remove_cvref_t<A>>
struct value_if_moved<A> {
  using type = decltype(awaiter_of(std::declval<std::remove_cvref_t<A>>()).await_resume());
};
template <class A> struct not_awaitable {
  static constexpr bool await_ready() noexcept { return true; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static typename value_if_moved<A>::type await_resume() { __builtin_unreachable(); }
};

/// Resumes the coroutine on the executor of its environment, by itself or by its operator co_await.
template <class A>
concept awaited_in_place = !is_adapted<A> && affine_awaitable<std::remove_reference_t<A>>;
template <class A>
concept has_affine_awaiter =
    !is_adapted<A> && affine_awaitable<std::remove_reference_t<decltype(awaiter_of(std::declval<A>()))>>;
/// Knows no environment.
template <class A>
concept has_foreign_awaiter =
    !is_adapted<A> && requires(std::remove_reference_t<decltype(awaiter_of(std::declval<A>()))>& awaiter,
                               std::coroutine_handle<> h) {
      awaiter.await_ready();
      awaiter.await_suspend(h);
      awaiter.await_resume();
    };

} // namespace detail
} // namespace unio
