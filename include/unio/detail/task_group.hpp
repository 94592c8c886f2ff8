// unio/detail/task_group.hpp: implements unio/task_group.hpp.

#pragma once

#include <unio/task_group.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// A task of a group, in a block of the frame pool.
class group_member {
 public:
  explicit group_member(void (*destroy)(group_member&) noexcept) noexcept : destroy_(destroy) {}

 private:
  friend class unio::task_group;
  void (*destroy_)(group_member&) noexcept;
  group_member* next_ = nullptr;
  group_member* previous_ = nullptr;
};

/// In the place of a task that ends, until nothing of it is left: learns that the group was destroyed, by the
/// handler or with what the task held.
class ended_member final : public group_member {
 public:
  ended_member() noexcept : group_member(&lose_group) {}
  [[nodiscard]] bool has_group() const noexcept { return has_group_; }

 private:
  static void lose_group(group_member& m) noexcept { static_cast<ended_member&>(m).has_group_ = false; }
  bool has_group_ = true;
};

template <class T, class Handler>
class member_of_group final : public group_member,
                              public child<member_of_group<T, Handler>, task<T>>,
                              public pooled_frames {
 public:
  static constexpr char const* what = "task_group";
  member_of_group(task<T>&& t, Handler&& handler, task_group& of) noexcept
      : group_member(&destroy),
        child<member_of_group, task<T>>(std::move(t)),
        of_(of),
        handler_(std::move(handler)) {}

  std::coroutine_handle<> child_ended() noexcept {
    task_group& group = of_;
    ended_member here;
    group.replace(*this, here);
    if constexpr (std::same_as<Handler, tell_the_group>) {
      std::exception_ptr e = this->state().exception();
      delete this;
      if (e != nullptr && here.has_group()) group.fail(std::move(e));
    } else {
      task_outcome<T> outcome = outcome_of(this->state());
      Handler handler = std::move(handler_);
      delete this;
      if (here.has_group() && group.tells_) handler(std::move(outcome));
    }
    if (!here.has_group()) return std::noop_coroutine();
    group.leave(here);
    return group.count_down();
  }

 private:
  static void destroy(group_member& m) noexcept { delete &static_cast<member_of_group&>(m); }

  task_group& of_;
  [[no_unique_address]] Handler handler_;
};

/// The same task, which begins later.
template <class T> task<T> queued(task<T> t) {
  co_await co_fork();
  co_return co_await std::move(t);
}

} // namespace detail

class UNIO_TO_AWAIT task_group::join_awaitable : private unio::stop_node {
 public:
  explicit join_awaitable(task_group& g) noexcept : stop_node(&stop_came), group_(g) {}
  join_awaitable(join_awaitable const& other) noexcept
      : join_awaitable(other.group_) {} // before it is awaited
  join_awaitable& operator=(join_awaitable const&) = delete;
  ~join_awaitable() {
    if (!waits_) return;
    stop_listening();
    group_.forget_to_wait();
  }
  [[nodiscard]] bool await_ready() const noexcept {
    // Before the count is looked at, which is one less while another coroutine waits.
    UNIO_EXPECTS(group_.joiner_ == nullptr, "a task_group is joined by two coroutines at once");
    return group_.running() == 0;
  }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    waits_ = true;
    stop_ = e.stop;
    if (stop_.stop_possible() && !attach(stop_)) group_.request_stop();
    return group_.begin_to_wait(*this, h, e);
  }
  joined await_resume() {
    if (waits_) stop_listening(); // before the group is used again
    waits_ = false;
    return group_.end_to_wait(stop_.stop_requested());
  }

 private:
  friend class task_group;
  void forget_group() noexcept {
    stop_listening();
    waits_ = false;
  }
  static void stop_came(stop_node& n) noexcept { static_cast<join_awaitable&>(n).group_.request_stop(); }
  void stop_listening() noexcept {
    if (stop_.stop_possible()) detach(stop_);
  }

  task_group& group_;
  stop_token stop_; // of the waiting coroutine
  bool waits_ = false;
};

inline task_group::join_awaitable task_group::co_join() noexcept { return join_awaitable(*this); }
inline task_group::join_awaitable task_group::join() noexcept { return co_join(); }

template <detail::startable_alone A, class Handler> void task_group::start(A&& a, Handler handler) {
  if constexpr (std::same_as<Handler, detail::tell_the_group> || detail::outcome_handler<Handler, A>) {
    using member = detail::member_of_group<detail::task_value_t<A>, Handler>;
    static_assert(alignof(member) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "blocks of the pool are not aligned so far");
    auto t = detail::as_task<A>(static_cast<A&&>(a));
    auto* const m =
        new member(is_deep() ? detail::queued(std::move(t)) : std::move(t), std::move(handler), *this);
    run(*m, m->prepare(environment_));
  } else {
    (void)detail::what_a_handler_takes<A, Handler>();
  }
}

} // namespace unio
