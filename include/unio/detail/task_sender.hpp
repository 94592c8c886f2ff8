// unio/detail/task_sender.hpp: tasks as senders.

#pragma once

#include <unio/detail/schedulers.hpp>
#include <unio/detail/standard_operation.hpp>

#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

/// `Chooses`: it runs on the multiplexer of the thread that starts it, instead of its executor.
template <class Executor, class T, class Receiver, bool Chooses = false>
class task_operation : public root<task_operation<Executor, T, Receiver, Chooses>, Executor, T>,
                       delegation_of<task_operation<Executor, T, Receiver, Chooses>, Receiver> {
  using base = root<task_operation, Executor, T>;
  using place = place_of<ex::env_of_t<Receiver>>;
  friend delegation_of<task_operation, Receiver>;
  using token_type = ex::stop_token_of_t<ex::env_of_t<Receiver>>;
  struct on_stop {
    task_operation* self;
    void operator()() const noexcept { self->pass_on_stop(); }
  };

 public:
  using operation_state_concept = ex::operation_state_t;
  static constexpr char const* what = "sender";
  task_operation(Executor executor, task<T>&& t, Receiver&& receiver)
      : base(std::move(executor), std::move(t), {}, nullptr), receiver_(std::move(receiver)) {}
  task_operation(task_operation&&) = delete;

  void start() & noexcept {
    token_type const token = ex::get_stop_token(ex::get_env(receiver_));
    if (token.stop_possible()) {
      this->environment_.stop = source_.get_token();
      callback_.emplace(token, on_stop{this});
    }
    choose();
    if constexpr (place::delegates) {
      if (io_multiplexer const* const m = this->multiplexer(); m != nullptr && this->is_needed(*m))
        return this->await_turn();
    } else if constexpr (UNIO_IS_DEBUG && Chooses && place::is_foreign) {
      expect_is_run(*this->multiplexer());
    }
    this->post();
  }
  void begin() noexcept {
    if (source_.stop_requested()) return dropped();
    base::begin();
  }
  std::coroutine_handle<> child_ended() noexcept {
    if (stopping_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      ended_in_stop_ = true;
      return std::noop_coroutine();
    }
    if constexpr (place::delegates) {
      if (this->is_delegated()) {
        this->set_ended();
        return std::noop_coroutine();
      }
      if (this->multiplexer() != nullptr) {
        runs_here const here(this->multiplexer());
        complete();
        return std::noop_coroutine();
      }
    }
    complete();
    return std::noop_coroutine();
  }
  void dropped() noexcept {
    is_lost_ = true;
    if constexpr (place::delegates) {
      if (this->is_delegated()) {
        this->drop();
        return this->set_ended();
      }
    }
    complete();
  }

 private:
  void choose() noexcept {
    if constexpr (Chooses) {
      io_multiplexer& m = this_thread::multiplexer();
      this->executor_ = m.executor();
      this->environment_.multiplexer = &m;
    }
  }
  io_multiplexer& delegated_multiplexer() noexcept {
    choose();
    return *this->multiplexer();
  }
  void start_delegated() noexcept { this->post(); }
  void refuse() noexcept { dropped(); }
  // A task that ends inside the request is completed after it: that may destroy the source.
  void pass_on_stop() noexcept {
    stopping_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    source_.request_stop();
    stopping_.store(std::thread::id(), std::memory_order_relaxed);
    if (ended_in_stop_) (void)child_ended();
  }
  void complete() noexcept {
    callback_.reset();
    if (is_lost_) {
      this->drop();
      return ex::set_stopped(std::move(receiver_));
    }
    task_outcome<T> outcome = outcome_of<T>(this->state());
    this->drop();
    if (!outcome.has_value()) {
      if (source_.stop_requested() && is_canceled(outcome.error())) {
        ex::set_stopped(std::move(receiver_));
      } else {
        ex::set_error(std::move(receiver_), std::move(outcome.error()));
      }
    } else if constexpr (std::is_void_v<T>) {
      ex::set_value(std::move(receiver_));
    } else if constexpr (std::is_reference_v<T>) {
      ex::set_value(std::move(receiver_), static_cast<T>(**outcome));
    } else {
      ex::set_value(std::move(receiver_), *std::move(outcome));
    }
  }

  stop_source source_;
  Receiver receiver_;
  bool is_lost_ = false; // it will never end
  bool ended_in_stop_ = false;
  std::atomic<std::thread::id> stopping_{}; // the thread that is passing a stop on
  std::optional<ex::stop_callback_for_t<token_type, on_stop>> callback_;
};

/// The executor that the environment of a receiver names.
template <class Env> auto executor_of([[maybe_unused]] Env const& e) noexcept {
  if constexpr (place_of<Env>::is_own) {
    return scheduler_of(e).executor();
  } else if constexpr (is_own_scheduler<typename place_of<Env>::delegation>) {
    return delegation_scheduler_of(e).executor();
  } else {
    return this_thread::multiplexer().executor();
  }
}
template <class Env>
inline constexpr bool names_executor =
    place_of<Env>::is_own || is_own_scheduler<typename place_of<Env>::delegation>;
template <class T, class Receiver>
using task_operation_for =
    task_operation<decltype(executor_of(std::declval<ex::env_of_t<Receiver> const&>())), T, Receiver,
                   !names_executor<ex::env_of_t<Receiver>>>;

/// A task that is a sender by itself.
template <class T, class Receiver>
class standard_operation<task<T>, Receiver> : public task_operation_for<T, Receiver> {
 public:
  standard_operation(task<T>&& t, Receiver&& receiver)
      : task_operation_for<T, Receiver>(executor_of(ex::get_env(receiver)), std::move(t),
                                        std::move(receiver)) {}
};

template <class T> struct value_completion {
  using type = ex::set_value_t(T);
};
template <> struct value_completion<void> {
  using type = ex::set_value_t();
};

template <class T> struct standard_completions<task<T>> {
  using type = ex::completion_signatures<typename value_completion<T>::type,
                                         ex::set_error_t(std::exception_ptr), ex::set_stopped_t()>;
};

template <class Executor, class T> class task_sender {
 public:
  using sender_concept = ex::sender_t;
  using completion_signatures = typename standard_completions<task<T>>::type;
  task_sender(Executor executor, task<T> t) : executor_(std::move(executor)), task_(std::move(t)) {}
  template <class Receiver> auto connect(Receiver receiver) && {
    return task_operation<Executor, T, Receiver>(std::move(executor_), std::move(task_), std::move(receiver));
  }
  template <class Env> auto get_completion_signatures(Env&&) const { return completion_signatures(); }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return completion_signatures();
  }

 private:
  Executor executor_;
  task<T> task_;
};

} // namespace unio::detail

namespace unio::inline v0_1 {

template <is_executor Executor, class T>
inline detail::task_sender<Executor, T> as_sender(Executor executor, task<T>&& t) {
  return {std::move(executor), std::move(t)};
}
// What is no task, or was not moved: an error that says what to write.
template <is_executor Executor, class T>
inline detail::task_sender<Executor, T> as_sender(Executor executor, task<T> const&) {
  (void)detail::what_to_await<task<T> const&>();
  return {std::move(executor), task<T>()};
}
template <is_executor Executor> inline detail::any_value as_sender(Executor, detail::no_awaitable) {
  return {};
}

} // namespace unio
