// unio/detail/senders.hpp: the templates behind unio/execution.hpp.
//
// Here because the standard's vocabulary is templates: operation states, senders and receivers must be
// visible to be connected.

#pragma once

#include <unio/connect.hpp>
#include <unio/detail/run.hpp>
#include <unio/detail/sender_wait.hpp>
#include <unio/execution.hpp>

#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

// ---- operations -------------------------------------------------------------------------------------------

template <class Sender> struct standard_completions {
  using type = ex::completion_signatures<ex::set_value_t(typename Sender::result_type), ex::set_stopped_t()>;
};

/// See unio/execution.hpp.
template <class Sender, class Receiver>
class standard_operation : message_link<standard_operation<Sender, Receiver>>, Sender {
  using link = message_link<standard_operation>;
  using token_type = ex::stop_token_of_t<ex::env_of_t<Receiver>>;
  struct on_stop {
    standard_operation* self;
    void operator()() const noexcept { self->gate_.stop(*self); }
  };

 public:
  using operation_state_concept = ex::operation_state_t;

  standard_operation(Sender&& sender, Receiver&& receiver)
      : Sender(std::move(sender)), receiver_(std::move(receiver)) {
    this->set_notification(&notify);
  }
  standard_operation(standard_operation&&) = delete;

  void start() & noexcept {
    token_type const token = ex::get_stop_token(ex::get_env(receiver_));
    bool const stoppable = token.stop_possible();
    bool const elsewhere = this->chosen(nullptr).run_by() == io_multiplexer::runner::another_thread;
    if (stoppable || elsewhere) this->set_atomic(link::next_message_);
    if (stoppable && token.stop_requested()) return refuse();
    if (elsewhere) {
      if (stoppable) callback_.emplace(token, on_stop{this});
      if (!gate_.open()) return refuse();
      io_operation::start(); // this object may be destroyed by now
      return;
    }
    bool finished_inside = false;
    finished_inside_ = &finished_inside;
    io_operation::start();
    if (finished_inside) return; // this object may be destroyed by now
    finished_inside_ = nullptr;
    (void)gate_.open();
    if (stoppable) callback_.emplace(token, on_stop{this});
  }

 private:
  void refuse() noexcept {
    callback_.reset();
    io_operation::refuse(-static_cast<int>(std::errc::operation_canceled));
    ex::set_stopped(std::move(receiver_));
  }
  static void notify(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    auto& self = static_cast<standard_operation&>(op);
    self.callback_.reset();
    self.mark_finished();
    if (self.finished_inside_ != nullptr) *self.finished_inside_ = true;
    typename Sender::result_type result = self.result();
    if (result.error() == condition::canceled &&
        ex::get_stop_token(ex::get_env(self.receiver_)).stop_requested()) {
      ex::set_stopped(std::move(self.receiver_));
    } else {
      ex::set_value(std::move(self.receiver_), std::move(result));
    }
  }

  Receiver receiver_;
  bool* finished_inside_ = nullptr; // while start() is under way on this thread
  stop_gate gate_;
  std::optional<ex::stop_callback_for_t<token_type, on_stop>> callback_;
};

// ---- executors --------------------------------------------------------------------------------------------

template <class Executor> class executor_scheduler;

template <class Executor, class Receiver> class schedule_operation : work {
 public:
  using operation_state_concept = ex::operation_state_t;
  schedule_operation(Executor executor, Receiver&& receiver)
      : work(&turn), executor_(std::move(executor)), receiver_(std::move(receiver)) {}
  schedule_operation(schedule_operation&&) = delete;
  void start() & noexcept {
    Executor const executor = executor_; // this object may be destroyed before post() returns
    executor.post(static_cast<work&>(*this));
  }

 private:
  static void turn(work& w, bool run) noexcept {
    auto& self = static_cast<schedule_operation&>(w);
    if (!run || ex::get_stop_token(ex::get_env(self.receiver_)).stop_requested()) {
      ex::set_stopped(std::move(self.receiver_));
    } else {
      ex::set_value(std::move(self.receiver_));
    }
  }
  Executor executor_;
  Receiver receiver_;
};

template <class Executor> class schedule_sender {
  struct env {
    Executor executor;
    template <class Completion>
    executor_scheduler<Executor> query(ex::get_completion_scheduler_t<Completion>) const noexcept {
      return executor_scheduler<Executor>(executor);
    }
  };

 public:
  using sender_concept = ex::sender_t;
  using completion_signatures = ex::completion_signatures<ex::set_value_t(), ex::set_stopped_t()>;
  explicit schedule_sender(Executor executor) : executor_(std::move(executor)) {}
  template <class Receiver> auto connect(Receiver receiver) const {
    return schedule_operation<Executor, Receiver>(executor_, std::move(receiver));
  }
  template <class Env> auto get_completion_signatures(Env&&) const { return completion_signatures(); }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return completion_signatures();
  }
  [[nodiscard]] env get_env() const noexcept { return {executor_}; }

 private:
  Executor executor_;
};

template <class Executor> class executor_scheduler {
 public:
  using scheduler_concept = ex::scheduler_t;
  explicit executor_scheduler(Executor executor) : executor_(std::move(executor)) {}
  [[nodiscard]] schedule_sender<Executor> schedule() const { return schedule_sender<Executor>(executor_); }
  [[nodiscard]] Executor const& executor() const noexcept { return executor_; }
  bool operator==(executor_scheduler const& other) const noexcept { return executor_ == other.executor_; }

 private:
  Executor executor_;
};

// ---- tasks ------------------------------------------------------------------------------------------------

template <class Executor, class T, class Receiver>
class task_operation : public root<task_operation<Executor, T, Receiver>, Executor, T> {
  using base = root<task_operation, Executor, T>;
  using token_type = ex::stop_token_of_t<ex::env_of_t<Receiver>>;
  struct on_stop {
    stop_source* source;
    void operator()() const noexcept { source->request_stop(); }
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
      callback_.emplace(token, on_stop{&source_});
    }
    this->post();
  }
  void begin() noexcept {
    if (source_.stop_requested()) return dropped();
    base::begin();
  }
  std::coroutine_handle<> child_ended() noexcept {
    callback_.reset();
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
    } else {
      ex::set_value(std::move(receiver_), *std::move(outcome));
    }
    return std::noop_coroutine();
  }
  void dropped() noexcept {
    callback_.reset();
    this->drop();
    ex::set_stopped(std::move(receiver_));
  }

 private:
  stop_source source_;
  Receiver receiver_;
  std::optional<ex::stop_callback_for_t<token_type, on_stop>> callback_;
};

template <class T> struct value_completion {
  using type = ex::set_value_t(T);
};
template <> struct value_completion<void> {
  using type = ex::set_value_t();
};

template <class Executor, class T> class task_sender {
 public:
  using sender_concept = ex::sender_t;
  using completion_signatures =
      ex::completion_signatures<typename value_completion<T>::type, ex::set_error_t(std::exception_ptr),
                                ex::set_stopped_t()>;
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

// ---- awaiting ---------------------------------------------------------------------------------------------

/// The one set_value signature of a sender, as a value.
template <class Signatures> struct value_of_signatures;
template <template <class...> class List, class... Signatures>
struct value_of_signatures<List<Signatures...>> {
  template <class Signature> struct values {
    using type = std::tuple<>;
  };
  template <class... V> struct values<ex::set_value_t(V...)> {
    using type = std::tuple<std::tuple<std::decay_t<V>...>>;
  };
  using all = decltype(std::tuple_cat(std::declval<typename values<Signatures>::type>()...));
  static_assert(std::tuple_size_v<all> == 1, "a sender that is awaited has one way to succeed");
  using type = std::tuple_element_t<0, all>;
};

template <class Sender> class [[nodiscard]] sender_awaitable : sender_wait {
  struct env {
    sender_wait* wait;
    [[nodiscard]] standard_stop_token query(ex::get_stop_token_t) const noexcept { return wait->token(); }
  };
  using values = typename value_of_signatures<ex::completion_signatures_of_t<Sender, env>>::type;

  struct receiver {
    using receiver_concept = ex::receiver_t;
    sender_awaitable* self;
    template <class... V> void set_value(V&&... v) && noexcept {
      self->values_.emplace(std::forward<V>(v)...);
      self->completed();
    }
    template <class E> void set_error(E&& e) && noexcept {
      self->error_ = to_exception(std::forward<E>(e));
      self->completed();
    }
    void set_stopped() && noexcept {
      self->error_ = canceled_exception();
      self->completed();
    }
    [[nodiscard]] env get_env() const noexcept { return {self}; }
  };
  struct connected {
    ex::connect_result_t<Sender, receiver> operation;
    connected(Sender&& s, sender_awaitable* self) : operation(ex::connect(std::move(s), receiver{self})) {}
  };

 public:
  explicit sender_awaitable(Sender sender) : sender_(std::move(sender)) {}
  sender_awaitable(sender_awaitable&& other) : sender_(std::move(other.sender_)) {}
  ~sender_awaitable() { call_back(); }

  static constexpr bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) {
    operation_.emplace(std::move(sender_), this);
    leave(h, e);
    ex::start(operation_->operation);
    return state_.has_left();
  }
  auto await_resume() {
    state_.resumed();
    if (error_ != nullptr) rethrow(std::move(error_));
    if constexpr (std::tuple_size_v<values> == 1) {
      return std::get<0>(*std::move(values_));
    } else if constexpr (std::tuple_size_v<values> != 0) {
      return *std::move(values_);
    }
  }

 private:
  Sender sender_;
  std::optional<values> values_;
  std::exception_ptr error_;
  std::optional<connected> operation_; // destroyed first
};

} // namespace unio::detail

namespace unio::inline v0_1 {

template <is_executor Executor, class T>
inline detail::task_sender<Executor, T> as_sender(Executor executor, task<T> t) {
  return {std::move(executor), std::move(t)};
}
template <is_executor Executor> inline detail::executor_scheduler<Executor> as_scheduler(Executor executor) {
  return detail::executor_scheduler<Executor>(std::move(executor));
}
template <class Sender>
inline detail::sender_awaitable<std::remove_cvref_t<Sender>> as_awaitable(Sender&& sender) {
  return detail::sender_awaitable<std::remove_cvref_t<Sender>>(std::forward<Sender>(sender));
}

} // namespace unio
