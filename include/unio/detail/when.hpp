// unio/detail/when.hpp: implements unio/when.hpp.
//
//   gathered    one task, in the frame of the coroutine that waits for all of them
//   several     tasks that are arguments
//   range_of    tasks that stay in a range
//   gathering   starts them, and is awaited: the same for both

#pragma once

#include <unio/detail/children.hpp>
#include <unio/when.hpp>

namespace unio::inline v0_1::detail {

enum class waiting_for : unsigned char { values, outcomes, successes, first_success, first_end };

template <class T> bool has_succeeded(task_state<T>& s) noexcept {
  if (s.has_failed()) return false;
  if constexpr (fallible<T>) {
    return s.value().has_value();
  } else {
    return true;
  }
}

/// What a success of a task<T> yields: of a result its value.
template <class T> struct success {
  using type = T;
};
template <fallible T> struct success<T> {
  using in_it = decltype(*std::declval<T>());
  using type = std::conditional_t<std::is_reference_v<T>, in_it, std::remove_reference_t<in_it>>;
};
template <class T> using success_t = typename success<T>::type;

/// Preconditions: it has failed, without an exception.
template <class T> failure error_in(task_state<T>& s) noexcept {
  if constexpr (fallible<T>) {
    using error = decltype(s.value().error());
    static_assert(std::convertible_to<error, std::error_code>,
                  "when_all_succeed yields a result: each error must convert to std::error_code");
    if constexpr (std::convertible_to<error, failure>) {
      return s.value().error(); // with where it comes from
    } else {
      return std::error_code(s.value().error());
    }
  } else {
    return {};
  }
}

/// Records which task was first to succeed, to fail, or to end.
class gatherer : public children {
 public:
  template <waiting_for What, class T> std::coroutine_handle<> ended(task_state<T>& s) noexcept {
    if constexpr (What == waiting_for::values) {
      if (s.has_failed() && is_first(first_failed_, s)) [[unlikely]]
        ask_to_stop();
    } else if constexpr (What == waiting_for::successes) {
      if (!has_succeeded(s) && is_first(first_failed_, s)) [[unlikely]]
        ask_to_stop();
    } else if constexpr (What == waiting_for::first_end) {
      if (is_first(first_, s)) ask_to_stop();
    } else if constexpr (What == waiting_for::first_success) {
      if (!has_succeeded(s)) {
        is_first(first_failed_, s);
      } else if (is_first(first_, s)) {
        ask_to_stop();
      }
    }
    return one_ended();
  }

 protected:
  /// The first that succeeded, or ended; if none succeeded, the first that failed. Throws its exception.
  [[nodiscard]] promise_base* first() const {
    promise_base* p = first_.load(std::memory_order_relaxed);
    if (p == nullptr) p = first_failed_.load(std::memory_order_relaxed);
    if (p != nullptr && p->has_failed()) [[unlikely]]
      rethrow(p->exception());
    return p;
  }

 private:
  static bool is_first(std::atomic<promise_base*>& first, promise_base& p) noexcept {
    promise_base* none = nullptr;
    return first.compare_exchange_strong(none, &p, std::memory_order_relaxed);
  }
  std::atomic<promise_base*> first_{nullptr};
  std::atomic<promise_base*> first_failed_{nullptr};
};

template <waiting_for What, class Task> class gathered : public child<gathered<What, Task>, Task> {
 public:
  static constexpr char const* what = "when_all, when_any or race";
  using child<gathered, Task>::child;
  std::coroutine_handle<> prepare(gatherer& of, environment const& e) noexcept {
    of_ = &of;
    return child<gathered, Task>::prepare(e, of.caller());
  }
  std::coroutine_handle<> child_ended() noexcept { return of_->template ended<What>(this->state()); }

 private:
  gatherer* of_ = nullptr;
};

template <class T> auto value_of(task_state<T>& s) {
  if constexpr (std::is_void_v<T>) {
    s.take();
    return std::tuple<>();
  } else {
    return std::tuple<T>(s.take());
  }
}

template <class T> auto success_of(task_state<T>& s) {
  using value = success_t<T>;
  if constexpr (std::is_void_v<value>) {
    return std::tuple<>();
  } else if constexpr (fallible<T>) {
    return std::tuple<value>(*s.take());
  } else {
    return std::tuple<value>(s.take());
  }
}

template <waiting_for What, class... T> class several {
 public:
  explicit several(task<T>... tasks) noexcept : nodes_(std::move(tasks)...) {}

  static constexpr std::size_t size() noexcept { return sizeof...(T); }
  template <class F> void for_each(F f) noexcept {
    std::apply([&f](auto&... node) { (f(node), ...); }, nodes_);
  }
  auto values() {
    return std::apply(
        [](auto&... node) {
          if constexpr (!(std::is_void_v<T> && ...)) return std::tuple_cat(value_of(node.state())...);
        },
        nodes_);
  }
  std::tuple<task_outcome<T>...> outcomes() {
    return std::apply(
        [](auto&... node) { return std::tuple<task_outcome<T>...>(outcome_of(node.state())...); }, nodes_);
  }
  auto successes(promise_base const* failed) {
    return std::apply(
        [failed](auto&... node) {
          if constexpr ((std::is_void_v<success_t<T>> && ...)) {
            if (failed != nullptr) return result<void>(error_of(failed, node...));
            return result<void>();
          } else {
            using values = decltype(std::tuple_cat(success_of(node.state())...));
            if (failed != nullptr) return result<values>(error_of(failed, node...));
            return result<values>(std::in_place, std::tuple_cat(success_of(node.state())...));
          }
        },
        nodes_);
  }
  when_any_result<T...> first(promise_base const* winner) {
    std::size_t index = 0;
    std::apply([&](auto&... node) { (void)((&node.state() == winner || (++index, false)) || ...); }, nodes_);
    return {index, outcomes()};
  }
  void drop() noexcept {
    std::apply([](auto&... node) { (node.drop(), ...); }, nodes_);
  }

 private:
  template <class... Node>
  static failure error_of([[maybe_unused]] promise_base const* failed, Node&... node) {
    failure why;
    (void)((&node.state() == failed && (why = error_in(node.state()), true)) || ...);
    return why;
  }
  std::tuple<gathered<What, task<T>>...> nodes_;
};

template <waiting_for What, class Iterator, class T> class range_of {
  using node = gathered<What, task_elsewhere<T>>;
  static_assert(std::is_trivially_destructible_v<node>);

 public:
  range_of(Iterator first, Iterator last) : begin_(first), end_(last) {
    for (; first != last; ++first) ++n_;
    if (n_ == 0) return;
    nodes_ = static_cast<node*>(frame_pool::allocate(n_ * sizeof(node)));
    node* at = nodes_;
    for (first = begin_; first != last; ++first)
      ::new (static_cast<void*>(at++)) node(task_elsewhere<T>(*first));
  }
  range_of(range_of&& other) noexcept
      : begin_(other.begin_), end_(other.end_), n_(other.n_), nodes_(std::exchange(other.nodes_, nullptr)) {}
  range_of& operator=(range_of&&) = delete;
  ~range_of() {
    if (nodes_ != nullptr) frame_pool::deallocate(nodes_, n_ * sizeof(node));
  }

  [[nodiscard]] std::size_t size() const noexcept { return n_; }
  template <class F> void for_each(F f) noexcept {
    for (std::size_t i = 0; i != n_; ++i) f(nodes_[i]);
  }
  void drop() noexcept {
    for (Iterator i = begin_; i != end_; ++i) *i = {};
  }
  auto values() {
    if constexpr (!std::is_void_v<T>) return task_values<Iterator, T>(begin_, end_);
  }
  auto successes(promise_base const* failed) {
    using value = success_t<T>;
    using values = std::conditional_t<std::is_void_v<value>, void, task_values<Iterator, value>>;
    if (failed != nullptr) return result<values>(error_in(nodes_[index_of(failed)].state()));
    if constexpr (std::is_void_v<value>) {
      return result<void>();
    } else {
      return result<values>(std::in_place, begin_, end_);
    }
  }
  when_any_of_result<T> first(promise_base const* winner) {
    std::size_t const index = index_of(winner);
    if constexpr (std::is_void_v<T>) {
      return {index};
    } else {
      return {index, nodes_[index].state().take()};
    }
  }

 private:
  [[nodiscard]] std::size_t index_of(promise_base const* p) const noexcept {
    std::size_t index = 0;
    while (&nodes_[index].state() != p) ++index;
    return index;
  }

  Iterator begin_, end_;
  std::size_t n_ = 0;
  node* nodes_ = nullptr;
};

template <waiting_for What, class Members> class UNIO_TO_AWAIT gathering : gatherer {
 public:
  explicit gathering(Members members) noexcept : members_(std::move(members)) {}
  gathering(gathering&& other) noexcept : members_(std::move(other.members_)) {}
  gathering& operator=(gathering&&) = delete;
  ~gathering() {
    if (!is_waiting()) [[likely]]
      return;
    abandon();
    members_.drop();
    take_back();
  }

  [[nodiscard]] bool await_ready() const noexcept { return members_.size() == 0; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    begin(h, e, static_cast<std::uint32_t>(members_.size()));
    std::coroutine_handle<> last;
    resume_scope const scope;
    members_.for_each([&](auto& node) {
      if (last) last.resume();
      last = node.prepare(*this, environment_);
    });
    return last;
  }
  auto await_resume() {
    gone_on();
    promise_base* const winner = first();
    if constexpr (What == waiting_for::values) {
      return members_.values();
    } else if constexpr (What == waiting_for::outcomes) {
      return members_.outcomes();
    } else if constexpr (What == waiting_for::successes) {
      return members_.successes(winner);
    } else {
      return members_.first(winner);
    }
  }

 private:
  Members members_;
};

template <waiting_for What, class... A> auto gather(A&&... a) {
  using members = several<What, task_value_t<A>...>;
  return gathering<What, members>(members(as_task<A>(static_cast<A&&>(a))...));
}
/// Some cannot be awaited: says what to write.
template <class A> using checked = std::conditional_t<can_be_awaited<A>, value_of_nothing, what_to_await<A>>;
template <waiting_for What, class... A> auto gather_mistaken(A&&... a) {
  static_assert(((sizeof(checked<A>) != 0) && ...));
  return gather<What>(static_cast<A&&>(a)...);
}
template <waiting_for What, class R> auto gather_range(R& tasks) {
  using iterator = decltype(std::begin(tasks));
  using value = typename std::remove_cvref_t<decltype(*std::begin(tasks))>::value_type;
  using members = range_of<What, iterator, value>;
  return gathering<What, members>(members(std::begin(tasks), std::end(tasks)));
}

} // namespace unio::detail

namespace unio::inline v0_1 {

template <detail::can_be_awaited... A> inline auto when_all(A&&... a) {
  return detail::gather<detail::waiting_for::values>(static_cast<A&&>(a)...);
}
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
inline auto when_all(R&& tasks) {
  return detail::gather_range<detail::waiting_for::values>(tasks);
}
template <detail::can_be_awaited... A> inline auto when_all_outcomes(A&&... a) {
  return detail::gather<detail::waiting_for::outcomes>(static_cast<A&&>(a)...);
}
template <detail::can_be_awaited... A> inline auto when_all_succeed(A&&... a) {
  return detail::gather<detail::waiting_for::successes>(static_cast<A&&>(a)...);
}
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
inline auto when_all_succeed(R&& tasks) {
  return detail::gather_range<detail::waiting_for::successes>(tasks);
}
template <detail::can_be_awaited... A> inline auto when_any(A&&... a) {
  static_assert(sizeof...(A) != 0, "when_any of nothing at all would wait for ever");
  return detail::gather<detail::waiting_for::first_success>(static_cast<A&&>(a)...);
}
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
inline auto when_any(R&& tasks) {
  UNIO_EXPECTS(std::begin(tasks) != std::end(tasks), "when_any of no task at all would wait for ever");
  return detail::gather_range<detail::waiting_for::first_success>(tasks);
}

template <detail::can_be_awaited... A> inline auto race(A&&... a) {
  static_assert(sizeof...(A) != 0, "race of nothing at all would wait for ever");
  return detail::gather<detail::waiting_for::first_end>(static_cast<A&&>(a)...);
}
template <detail::task_range R>
  requires(std::is_lvalue_reference_v<R> || std::is_trivially_copyable_v<std::remove_cvref_t<R>>)
inline auto race(R&& tasks) {
  UNIO_EXPECTS(std::begin(tasks) != std::end(tasks), "race of no task at all would wait for ever");
  return detail::gather_range<detail::waiting_for::first_end>(tasks);
}

// What cannot be awaited: an error that says what to write.
template <class... A>
  requires(!(detail::can_be_awaited<A> && ...))
inline auto when_all(A&&... a) {
  return detail::gather_mistaken<detail::waiting_for::values>(static_cast<A&&>(a)...);
}
template <class... A>
  requires(!(detail::can_be_awaited<A> && ...))
inline auto when_all_outcomes(A&&... a) {
  return detail::gather_mistaken<detail::waiting_for::outcomes>(static_cast<A&&>(a)...);
}
template <class... A>
  requires(!(detail::can_be_awaited<A> && ...))
inline auto when_all_succeed(A&&... a) {
  return detail::gather_mistaken<detail::waiting_for::successes>(static_cast<A&&>(a)...);
}
template <class... A>
  requires(!(detail::can_be_awaited<A> && ...))
inline auto when_any(A&&... a) {
  return detail::gather_mistaken<detail::waiting_for::first_success>(static_cast<A&&>(a)...);
}
template <class... A>
  requires(!(detail::can_be_awaited<A> && ...))
inline auto race(A&&... a) {
  return detail::gather_mistaken<detail::waiting_for::first_end>(static_cast<A&&>(a)...);
}

template <class... T>
template <std::size_t I, class F>
inline decltype(auto) when_any_result<T...>::visit_from(F& f) {
  auto& outcome = std::get<I>(outcomes);
  if constexpr (I + 1 != sizeof...(T))
    if (index != I) return visit_from<I + 1>(f);
  if constexpr (std::is_void_v<typename std::remove_reference_t<decltype(outcome)>::value_type>) {
    return f();
  } else {
    return f(*outcome);
  }
}

template <class... T>
inline decltype(auto) when_any_result<T...>::value()
  requires(!std::is_void_v<T> && ...)
{
  return visit([](auto& v) -> auto& { return v; });
}

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
    T operator*() const {
      auto& state = (*at_).child().promise();
      if constexpr (std::same_as<T, decltype(state.take())>) {
        return state.take();
      } else {
        return *state.take();
      }
    }
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

template <class T> inline task_outcome<T> take_outcome(task<T>& t) noexcept {
  return detail::outcome_of(t.child().promise());
}

} // namespace unio
