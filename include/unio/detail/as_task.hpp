// unio/detail/as_task.hpp: any awaitable becomes a task, for all that starts one.

#pragma once

#include <unio/detail/awaitable.hpp>
#include <unio/task.hpp>

#include <concepts>
#include <iterator>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

template <class T> struct is_task : std::false_type {};
template <class T> struct is_task<task<T>> : std::true_type {};

/// Can be awaited, or could be if it were moved: then as_task() says so, in one line.
template <class A>
concept startable = can_be_awaited<A> || can_be_awaited<std::remove_cvref_t<A>>;

/// The same of what outlives the call that starts it: an rvalue is moved, an lvalue referred to.
template <class A>
concept startable_alone = startable<A> && (std::is_lvalue_reference_v<A> || std::move_constructible<A>);

/// In place of what can be awaited, for overloads that say in one line what to write. A conversion, and these
/// are templates, so that a program's own functions of the same names come first.
struct no_awaitable {
  template <class A>
    requires(!startable<A>)
  no_awaitable(A&&) { // NOLINT: implicit
    (void)what_to_await<A>();
  }
};

/// In place of an executor, likewise.
template <class E>
concept is_place =
    is_executor<std::remove_cvref_t<E>> || std::derived_from<std::remove_cvref_t<E>, io_multiplexer>;
template <class E>
concept has_executor = requires(E& e) {
  { e.executor() } -> is_executor;
};
template <class E> struct where_to_run {
  static_assert(!has_executor<E>, "this is no executor, but has one: write pool.executor() in place of pool");
  static_assert(has_executor<E>, "this is neither an executor nor a multiplexer");
};
struct no_executor {
  template <class E>
    requires(!is_place<E>)
  no_executor(E&&) { // NOLINT: implicit
    (void)where_to_run<E>();
  }
};

/// Stands for the value of what cannot be awaited.
struct value_of_nothing {};

template <class A> struct task_value {
  using type = value_of_nothing;
};
template <class A>
  requires(!can_be_awaited<A> && is_function<A>)
struct task_value<A> : task_value<std::invoke_result_t<A&>> {};
template <can_be_awaited A> struct task_value<A> {
  using awaited = decltype(awaiter_of(std::declval<A>()).await_resume());
  using type =
      std::conditional_t<std::is_rvalue_reference_v<awaited>, std::remove_reference_t<awaited>, awaited>;
};
template <class T> struct task_value<task<T>> {
  using type = T;
};
template <class A>
using task_value_t =
    typename task_value<std::conditional_t<can_be_awaited<A>, A, std::remove_cvref_t<A>>>::type;

template <class T, class A> task<T> await_in_task(A a) {
  if constexpr (std::is_void_v<T>) {
    co_await static_cast<A&&>(a);
  } else {
    co_return co_await static_cast<A&&>(a);
  }
}

template <class A> task<task_value_t<A>> as_task(A&& a) {
  if constexpr (!can_be_awaited<A>) {
    (void)what_to_await<A>();
    return {};
  } else if constexpr (is_task<A>::value) {
    return static_cast<A&&>(a);
  } else if constexpr (std::is_lvalue_reference_v<A> || !std::move_constructible<A>) {
    return await_in_task<task_value_t<A>, A&&>(static_cast<A&&>(a));
  } else {
    return await_in_task<task_value_t<A>, A>(static_cast<A&&>(a));
  }
}

template <class R>
concept task_range = requires(R& r) {
  { std::begin(r) == std::end(r) } -> std::convertible_to<bool>;
  requires is_task<std::remove_reference_t<decltype(*std::begin(r))>>::value;
};

/// std::expected and the like: may be a failure without being an exception.
template <class T>
concept fallible = requires(T const& v) {
  { v.has_value() } -> std::convertible_to<bool>;
  v.error();
};

} // namespace unio::detail
