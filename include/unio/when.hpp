// unio/when.hpp: several things at once, within a coroutine.
//
//   when_all(a, b, …)            all of them: their values
//   when_all(tasks)              the same for a range of tasks
//   when_all_outcomes(a, b, …)   all of them, whatever they come to
//   when_any(a, b, …)            the first that succeeds; the others are asked to stop
//   when_any(tasks)
//   take_outcome(task)           what one of a range has come to
//
// Each takes tasks, and whatever else can be awaited. None lets go of a child: all have ended when it goes on.

#pragma once

#include <unio/detail/children.hpp>
#include <unio/run.hpp>

#include <span>
#include <tuple>

namespace unio {

namespace detail {

// ---- what is awaited becomes a task -----------------------------------------------------------------------------------

template <class A>
concept can_be_awaited = requires(A&& a) { awaiter_of(static_cast<A&&>(a)).await_resume(); };

template <class A> struct task_value {
  using awaited = decltype(awaiter_of(std::declval<A>()).await_resume());
  using type =
      std::conditional_t<std::is_rvalue_reference_v<awaited>, std::remove_reference_t<awaited>, awaited>;
};
template <class T> struct task_value<task<T>> {
  using type = T;
};
template <class A> using task_value_t = typename task_value<A>::type;

template <class T, class A> task<T> await_in_task(A a) {
  if constexpr (std::is_void_v<T>) {
    co_await static_cast<A&&>(a);
  } else {
    co_return co_await static_cast<A&&>(a);
  }
}

template <class A> task<task_value_t<A>> as_task(A&& a) {
  if constexpr (is_task<A>::value) {
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
  requires is_task<std::remove_cvref_t<decltype(*std::begin(r))>>::value;
};

// ---- those who wait for several ---------------------------------------------------------------------------------------

/// std::expected and its kin: may be a failure without being an exception.
template <class T>
concept fallible = requires(T const& v) {
  { v.has_value() } -> std::convertible_to<bool>;
  v.error();
};

template <class T> bool has_succeeded(task_state<T>& s) noexcept {
  if (s.has_failed()) return false;
  if constexpr (fallible<T>) {
    return s.value().has_value();
  } else {
    return true;
  }
}

enum class waiting_for : unsigned char { values, outcomes, first };

class gatherer : public children {
 public:
  template <waiting_for What, class T> void judge(end_listener& who, task_state<T>& s) noexcept {
    if constexpr (What == waiting_for::values) {
      if (s.has_failed() && is_first(first_failed_, who)) [[unlikely]]
        ask_to_stop();
    } else if constexpr (What == waiting_for::first) {
      if (!has_succeeded(s)) {
        is_first(first_failed_, who);
      } else if (is_first(first_, who)) {
        ask_to_stop();
      }
    }
  }

 protected:
  /// All of them have ended.
  [[nodiscard]] end_listener* first_failed() const noexcept {
    return first_failed_.load(std::memory_order_relaxed);
  }
  /// The first that has succeeded; if none has, the first that has failed.
  [[nodiscard]] end_listener* first() const noexcept {
    end_listener* const f = first_.load(std::memory_order_relaxed);
    return f != nullptr ? f : first_failed();
  }

 private:
  static bool is_first(std::atomic<end_listener*>& first, end_listener& who) noexcept {
    end_listener* nobody = nullptr;
    return first.compare_exchange_strong(nobody, &who, std::memory_order_relaxed);
  }
  std::atomic<end_listener*> first_{nullptr};
  std::atomic<end_listener*> first_failed_{nullptr};
};

template <waiting_for What, class T> class gathered : public end_listener {
 public:
  gathered() noexcept : end_listener(&ended) {}
  std::coroutine_handle<> prepare(std::coroutine_handle<task_state<T>> child, gatherer& of,
                                  environment const& e) noexcept {
    child_ = child;
    of_ = &of;
    stands_for("when_all or when_any", of.caller());
    child.promise().set_environment(e);
    child.promise().set_continuation(static_cast<end_listener&>(*this));
    return child;
  }
  [[nodiscard]] std::coroutine_handle<> handle() const noexcept { return child_; }
  [[nodiscard]] task_state<T>& state() const noexcept { return child_.promise(); }

 private:
  static std::coroutine_handle<> ended(end_listener& l) noexcept {
    auto& self = static_cast<gathered&>(l);
    self.of_->template judge<What>(l, self.state());
    return self.of_->one_ended();
  }
  std::coroutine_handle<task_state<T>> child_;
  gatherer* of_ = nullptr;
};

template <waiting_for What, class... T> class gather_several : protected gatherer {
 public:
  explicit gather_several(task<T>... tasks) noexcept : tasks_(std::move(tasks)...) {}
  gather_several(gather_several&& other) noexcept : tasks_(std::move(other.tasks_)) {}
  ~gather_several() {
    if (!is_waiting()) [[likely]]
      return;
    abandon();
    std::apply([](auto&... t) { ((t = {}), ...); }, tasks_);
    take_back();
  }

  static constexpr bool await_ready() noexcept { return sizeof...(T) == 0; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    begin(h, e, sizeof...(T));
    return start(std::index_sequence_for<T...>());
  }

 protected:
  std::tuple<gathered<What, T>...> nodes_;

 private:
  template <std::size_t... I> std::coroutine_handle<> start(std::index_sequence<I...>) noexcept {
    if constexpr (sizeof...(T) == 0) {
      return caller_;
    } else {
      std::coroutine_handle<> const all[] = {
          std::get<I>(nodes_).prepare(std::get<I>(tasks_).child(), *this, environment_)...};
      return start_in_order(all, sizeof...(T));
    }
  }
  std::tuple<task<T>...> tasks_;
};

template <class T> auto value_of(task_state<T>& s) {
  if constexpr (std::is_void_v<T>) {
    s.take();
    return std::tuple<>();
  } else {
    return std::tuple<T>(s.take());
  }
}

template <class... T>
class [[nodiscard]] when_all_awaitable : public gather_several<waiting_for::values, T...> {
 public:
  using gather_several<waiting_for::values, T...>::gather_several;
  auto await_resume() {
    this->gone_on();
    return std::apply(
        [this](auto&... node) {
          if (end_listener* const f = this->first_failed(); f != nullptr) [[unlikely]]
            ((&node == f ? rethrow(node.state().exception()) : void()), ...);
          if constexpr (!(std::is_void_v<T> && ...)) return std::tuple_cat(value_of(node.state())...);
        },
        this->nodes_);
  }
};

template <class... T>
class [[nodiscard]] when_all_outcomes_awaitable : public gather_several<waiting_for::outcomes, T...> {
 public:
  using gather_several<waiting_for::outcomes, T...>::gather_several;
  std::tuple<task_outcome<T>...> await_resume() {
    this->gone_on();
    return std::apply(
        [](auto&... node) { return std::tuple<task_outcome<T>...>(outcome_of(node.state())...); },
        this->nodes_);
  }
};

} // namespace detail

/// What several things came to of which one was wanted.
template <class... T> struct when_any_result {
  std::size_t index; ///< which was the first to succeed; if none did, to fail
  /// What each of them came to. A loser is in here with what it had done when it was stopped: its bytes are not lost.
  std::tuple<task_outcome<T>...> outcomes;

  /// Calls `f(value)` with the value of the one at `index`; where that yields nothing, `f()`. Returns what `f` returns, which
  /// must be of one type for all.
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

namespace detail {

template <class... T>
class [[nodiscard]] when_any_awaitable : public gather_several<waiting_for::first, T...> {
 public:
  using gather_several<waiting_for::first, T...>::gather_several;
  when_any_result<T...> await_resume() {
    this->gone_on();
    return std::apply(
        [this](auto&... node) {
          end_listener* const f = this->first();
          ((&node == f && node.state().has_failed() ? rethrow(node.state().exception()) : void()), ...);
          std::size_t index = 0;
          (void)((&node == f || (++index, false)) || ...);
          return when_any_result<T...>{index, {outcome_of(node.state())...}};
        },
        this->nodes_);
  }
};

// ---- a range of tasks -------------------------------------------------------------------------------------------------

template <class R> using task_iterator = decltype(std::begin(std::declval<R&>()));
template <class R>
using task_range_value =
    typename std::remove_cvref_t<decltype(*std::declval<task_iterator<R>>())>::value_type;

template <waiting_for What, class Iterator, class T> class gather_range : protected gatherer {
  using node = gathered<What, T>;

 public:
  gather_range(Iterator first, Iterator last) noexcept : begin_(first), end_(last) {
    for (; first != last; ++first) ++n_;
  }
  gather_range(gather_range&& other) noexcept : begin_(other.begin_), end_(other.end_), n_(other.n_) {}
  ~gather_range() {
    if (is_waiting()) [[unlikely]] {
      abandon();
      for (Iterator i = begin_; i != end_; ++i) *i = {};
      take_back();
    }
    if (nodes_ != nullptr) frame_pool::deallocate(nodes_, n_ * sizeof(node));
  }

  [[nodiscard]] bool await_ready() const noexcept { return n_ == 0; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) {
    nodes_ = static_cast<node*>(frame_pool::allocate(n_ * sizeof(node)));
    begin(h, e, static_cast<std::uint32_t>(n_));
    std::size_t n = 0;
    for (Iterator i = begin_; i != end_; ++i, ++n) {
      ::new (static_cast<void*>(nodes_ + n)) node;
      nodes_[n].prepare((*i).child(), *this, environment_);
    }
    resume_scope const scope;
    for (std::size_t i = 0; i + 1 != n_; ++i) nodes_[i].handle().resume();
    return nodes_[n_ - 1].handle();
  }

 protected:
  static_assert(std::is_trivially_destructible_v<node>);
  [[nodiscard]] node& node_of(end_listener& l) const noexcept { return static_cast<node&>(l); }
  [[nodiscard]] std::size_t index_of(end_listener& l) const noexcept {
    return static_cast<std::size_t>(&node_of(l) - nodes_);
  }
  Iterator begin_, end_;

 private:
  std::size_t n_ = 0;
  node* nodes_ = nullptr;
};

} // namespace detail

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

/// What one of a range of tasks came to.
template <class T> struct when_any_of_result {
  std::size_t index; ///< which was the first to succeed; if none did, to fail
  T value;
};
template <> struct when_any_of_result<void> {
  std::size_t index;
};

namespace detail {

template <class Iterator, class T>
class [[nodiscard]] when_all_of_awaitable : public gather_range<waiting_for::values, Iterator, T> {
 public:
  using gather_range<waiting_for::values, Iterator, T>::gather_range;
  auto await_resume() {
    this->gone_on();
    if (end_listener* const f = this->first_failed(); f != nullptr) [[unlikely]]
      rethrow(this->node_of(*f).state().exception());
    if constexpr (!std::is_void_v<T>) return task_values<Iterator, T>(this->begin_, this->end_);
  }
};

template <class Iterator, class T>
class [[nodiscard]] when_any_of_awaitable : public gather_range<waiting_for::first, Iterator, T> {
 public:
  using gather_range<waiting_for::first, Iterator, T>::gather_range;
  when_any_of_result<T> await_resume() {
    this->gone_on();
    end_listener& f = *this->first();
    if constexpr (std::is_void_v<T>) {
      this->node_of(f).state().take();
      return {this->index_of(f)};
    } else {
      return {this->index_of(f), this->node_of(f).state().take()};
    }
  }
};

} // namespace detail

/// Within a coroutine: `auto [a, b] = co_await when_all(x(), y())` runs both at once and waits for both.
///
/// Effects       starts them in this order, each until it first suspends, on the executor of who awaits
/// Returns       std::tuple of their values; what yields nothing is left out, and if none yields anything nothing is returned
/// Errors        the first exception asks the others to stop, and is thrown once all have ended; those that come later are
///               dropped, when_all_outcomes has them. An error in a result<T> is a value like any other
/// Resumes       where the awaiting coroutine belongs, when the last has ended
/// Cancellation  a stop is passed on to all of them
/// Destruction   of who awaits asks all of them to stop and destroys them; on the thread of its executor. On an executor of
///               several threads, stop it and let it end instead
/// Lifetime      what cannot be moved, and what is given as an lvalue, is referred to: await at once
/// Cost          nothing for a task; for anything else a frame from the pool. No lock, unless a stop is possible
/// Source        P2300 §4.20.12; cppcoro, when_all
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all(A&&... a) {
  return detail::when_all_awaitable<detail::task_value_t<A>...>(detail::as_task<A>(static_cast<A&&>(a))...);
}

/// The same for tasks in a container or a span, which stay there: their values, in order, to be moved out.
///
/// Returns   task_values<…>, a range; nothing for task<>. `co_await` it into a variable before a loop goes over it
/// Lifetime  the tasks outlive what is returned
/// Cost      one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_all(R&& tasks) {
  return detail::when_all_of_awaitable<detail::task_iterator<R>, detail::task_range_value<R>>(
      std::begin(tasks), std::end(tasks));
}

/// Waits for all of them, whatever they come to: a failure stops nobody.
///
/// Returns  std::tuple<task_outcome<T>...>: each one's value, or the exception that left it
/// Otherwise as when_all
template <detail::can_be_awaited... A> [[nodiscard]] auto when_all_outcomes(A&&... a) {
  return detail::when_all_outcomes_awaitable<detail::task_value_t<A>...>(
      detail::as_task<A>(static_cast<A&&>(a))...);
}

/// Waits for the first of them that succeeds, asks the others to stop, and waits for these too.
///
/// Success       no exception and, where the value is a result, an io_result or another std::expected, a value in it
/// Returns       when_any_result<T...>: who was first, and what became of all of them: one that could no longer be stopped
///               has its value there, so bytes that it has read are not lost
/// Errors        if none succeeds: what the first that failed did. Its exception is thrown, or it is what is returned
/// Otherwise     as when_all
/// Source        P0159 §2.9, where the first to end wins, with or without success
template <detail::can_be_awaited... A>
  requires(sizeof...(A) > 0)
[[nodiscard]] auto when_any(A&&... a) {
  return detail::when_any_awaitable<detail::task_value_t<A>...>(detail::as_task<A>(static_cast<A&&>(a))...);
}

/// The same for tasks in a container or a span, which stay there: take_outcome() says what became of the losers.
///
/// Returns        when_any_of_result<T>: who was first, and its value
/// Preconditions  there is one
/// Cost           one block from the frame pool
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
[[nodiscard]] auto when_any(R&& tasks) {
  UNIO_EXPECTS(std::begin(tasks) != std::end(tasks), "when_any of no task at all would wait for ever");
  return detail::when_any_of_awaitable<detail::task_iterator<R>, detail::task_range_value<R>>(
      std::begin(tasks), std::end(tasks));
}

/// What a task of a range came to, moved out of it. Preconditions: it has ended, and its value was not taken.
template <class T> [[nodiscard]] task_outcome<T> take_outcome(task<T>& t) noexcept {
  return detail::outcome_of(t.child().promise());
}

} // namespace unio
