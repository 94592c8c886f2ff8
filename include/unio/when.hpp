// unio/when.hpp: several things at once, within a coroutine.
//
//   when_all(a, b, …)            all of them: their values
//   when_all(tasks)              the same for a range of tasks
//   when_all_outcomes(a, b, …)   all of them, whatever they come to
//   when_any(a, b, …)            the first that succeeds; the others are asked to stop
//   when_any(tasks)
//   take_outcome(task)           what one of a range has come to
//
// Each takes tasks, and whatever else can be awaited, and goes on when all of them have ended.

#pragma once

#include <unio/detail/as_task.hpp>

#include <tuple>

namespace unio {

namespace detail {
enum class waiting_for : unsigned char { values, outcomes, first };
template <waiting_for What, class... A> auto gather(A&&... a);
template <waiting_for What, class R> auto gather_range(R& tasks);
} // namespace detail

/// Within a coroutine: `auto [a, b] = co_await when_all(x(), y())` runs both at once and waits for both.
///
/// Effects       starts them in this order, each until it first suspends, on the executor of the coroutine
///               that awaits
/// Returns       std::tuple of their values; what yields nothing is left out, and if none yields anything
///               nothing is returned
/// Errors        the first exception asks the others to stop, and is thrown once all have ended; those that
///               come later are dropped, when_all_outcomes has them. An error in a result<T> is a value like
///               any other
/// Resumes       where the awaiting coroutine belongs, when the last has ended
/// Cancellation  a stop is passed on to all of them
/// Destruction   of the awaiting coroutine asks all of them to stop and destroys them; on the thread of its
///               executor. On an executor of several threads, stop it and let it end instead
/// Lifetime      what cannot be moved, and what is given as an lvalue, is referred to: await at once
/// Cost          nothing for a task; for anything else a frame from the pool. No lock, unless a stop is
///               possible
/// Source        P2300 §4.20.12; cppcoro, when_all
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all(A&&... a) {
  return detail::gather<detail::waiting_for::values>(static_cast<A&&>(a)...);
}

/// The same for tasks in a container or a span, which stay there: their values, in order, to be moved out.
///
/// Returns   task_values<…>, a range; nothing for task<>. `co_await` it into a variable before a loop goes
///           over it
/// Lifetime  the tasks outlive what is returned
/// Cost      one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_all(R&& tasks) {
  return detail::gather_range<detail::waiting_for::values>(tasks);
}

/// Waits for all of them, whatever they come to: a failure stops none of the others.
///
/// Returns  std::tuple<task_outcome<T>...>: each one's value, or the exception that left it
/// Otherwise as when_all
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all_outcomes(A&&... a) {
  return detail::gather<detail::waiting_for::outcomes>(static_cast<A&&>(a)...);
}

/// Waits for the first of them that succeeds, asks the others to stop, and waits for these too.
///
/// Success       no exception and, where the value is a result, an io_result or another std::expected, a
///               value in it
/// Returns       when_any_result<T...>: which was first, and what became of all of them: one that could no
///               longer be stopped has its value there, so bytes that it has read are not lost
/// Errors        if none succeeds: what the first that failed did. Its exception is thrown, or it is what is
///               returned
/// Otherwise     as when_all
/// Source        P0159 §2.9, where the first to end wins, with or without success
template <detail::can_be_awaited... A>
  requires(sizeof...(A) > 0)
[[nodiscard]] auto when_any(A&&... a) {
  return detail::gather<detail::waiting_for::first>(static_cast<A&&>(a)...);
}

/// The same for tasks in a container or a span, which stay there: take_outcome() says what became of the
/// others.
///
/// Returns        when_any_of_result<T>: which was first, and its value
/// Preconditions  there is one
/// Cost           one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_any(R&& tasks) {
  UNIO_EXPECTS(std::begin(tasks) != std::end(tasks), "when_any of no task at all would wait for ever");
  return detail::gather_range<detail::waiting_for::first>(tasks);
}

/// What when_any(a, b, …) yields.
template <class... T> struct when_any_result {
  std::size_t index; ///< which was the first to succeed; if none did, to fail
  /// What each of them came to. The others are in here with what they had done when they were stopped: their
  /// bytes are not lost.
  std::tuple<task_outcome<T>...> outcomes;

  /// Calls `f(value)` with the value of the one at `index`; where that yields nothing, `f()`. Returns what
  /// `f` returns, which must be of one type for all.
  template <class F> decltype(auto) visit(F&& f) { return visit_from<0>(f); }
  /// The value at `index`, where all are of the same type.
  [[nodiscard]] decltype(auto) value()
    requires(!std::is_void_v<T> && ...)
  {
    return visit([](auto& v) -> auto& { return v; });
  }

 private:
  template <std::size_t I, class F> decltype(auto) visit_from(F& f) {
    auto& outcome = std::get<I>(outcomes);
    if constexpr (I + 1 != sizeof...(T))
      if (index != I) return visit_from<I + 1>(f);
    if constexpr (std::is_void_v<typename std::remove_reference_t<decltype(outcome)>::value_type>) {
      return f();
    } else {
      return f(*outcome);
    }
  }
};

/// The values of a range of tasks that have ended. Each is moved out of its task when it is looked at: once.
template <class Iterator, class T> class task_values {
 public:
  class iterator {
   public:
    using value_type = std::remove_cvref_t<T>;
    using difference_type = std::ptrdiff_t;
    using reference = T;
    using pointer = void;
    using iterator_category = std::input_iterator_tag;
    iterator() = default;
    explicit iterator(Iterator at) noexcept : at_(at) {}
    T operator*() const { return (*at_).child().promise().take(); }
    iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    iterator operator++(int) noexcept { return iterator(at_++); }
    bool operator==(iterator const&) const = default;

   private:
    Iterator at_{};
  };
  task_values(Iterator first, Iterator last) noexcept : first_(first), last_(last) {}
  [[nodiscard]] iterator begin() const noexcept { return iterator(first_); }
  [[nodiscard]] iterator end() const noexcept { return iterator(last_); }

 private:
  Iterator first_, last_;
};

/// What when_any(tasks) yields.
template <class T> struct when_any_of_result {
  std::size_t index; ///< which was the first to succeed; if none did, to fail
  T value;
};
template <> struct when_any_of_result<void> {
  std::size_t index;
};

/// What a task of a range came to, moved out of it. Preconditions: it has ended, and its value was not taken.
template <class T> [[nodiscard]] task_outcome<T> take_outcome(task<T>& t) noexcept {
  return detail::outcome_of(t.child().promise());
}

} // namespace unio

#include <unio/detail/when.hpp>
