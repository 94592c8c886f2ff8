// unio/detail/senders.hpp: the templates behind unio/execution.hpp.
//
// Here because the standard's vocabulary is templates: operation states, senders and receivers must be
// visible to be connected.

#pragma once

#include <unio/connect.hpp>
#include <unio/detail/run.hpp>
#include <unio/detail/sender_wait.hpp>
#include <unio/execution.hpp>

#include <atomic>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

// ---- where it runs ----------------------------------------------------------------------------------------

template <class Scheduler> inline constexpr bool is_own_scheduler = false;
template <class Executor> inline constexpr bool is_own_scheduler<executor_scheduler<Executor>> = true;

template <class Env> auto scheduler_of([[maybe_unused]] Env const& e) noexcept {
  if constexpr (requires { start_scheduler_t()(e); }) {
    return start_scheduler_t()(e);
  } else if constexpr (requires { ex::get_scheduler(e); }) {
    return ex::get_scheduler(e);
  } else {
    return nullptr;
  }
}
template <class Env> auto delegation_scheduler_of([[maybe_unused]] Env const& e) noexcept {
  if constexpr (requires { ex::get_delegation_scheduler(e); }) {
    return ex::get_delegation_scheduler(e);
  } else {
    return nullptr;
  }
}

/// What the environment of a receiver says about where an operation runs.
template <class Env> struct place_of {
  using scheduler = decltype(scheduler_of(std::declval<Env const&>()));
  using delegation = decltype(delegation_scheduler_of(std::declval<Env const&>()));
  /// It is started on an executor of unio's.
  static constexpr bool is_own = is_own_scheduler<scheduler>;
  /// It is started by other code, of which only that code knows whether it runs a multiplexer.
  static constexpr bool is_foreign = !is_own && !std::is_null_pointer_v<scheduler>;
  /// Other code waits, and offers turns of its thread.
  static constexpr bool delegates = !std::is_null_pointer_v<delegation> && !is_own_scheduler<delegation>;

  /// The multiplexer of its scheduler; null if it names none of unio's.
  static io_multiplexer* multiplexer([[maybe_unused]] Env const& e) noexcept {
    if constexpr (is_own) {
      auto const s = scheduler_of(e);
      if (io_multiplexer* const m = s.multiplexer(); m != nullptr) return m;
    }
    if constexpr (is_own_scheduler<delegation>) {
      auto const s = delegation_scheduler_of(e);
      return s.multiplexer();
    }
    return nullptr;
  }
};

/// Has the thread of a scheduler that is not unio's run a multiplexer, turn by turn. `Of` derives from this:
///
/// Of::receiver_                whose environment names the scheduler
/// Of::delegated_multiplexer()  in the first turn: what is to be run
/// Of::start_delegated()        then: starts what is waited for. Its end calls set_ended() if is_delegated();
///                              otherwise other code runs the multiplexer after all
/// Of::refuse()                 the scheduler refuses the first turn: completes the receiver
/// Of::complete()               it has ended: completes the receiver. May destroy this
template <class Of, class Env> class delegating {
  struct turn_receiver {
    using receiver_concept = ex::receiver_t;
    delegating* self;
    void set_value() && noexcept { self->turn(); }
    template <class E> void set_error(E&&) && noexcept { self->refused(); }
    void set_stopped() && noexcept { self->refused(); }
  };
  using turn_sender = decltype(ex::schedule(delegation_scheduler_of(std::declval<Env const&>())));
  struct scheduled {
    ex::connect_result_t<turn_sender, turn_receiver> operation;
    scheduled(Env const& e, delegating* self)
        : operation(ex::connect(ex::schedule(delegation_scheduler_of(e)), turn_receiver{self})) {}
  };

 public:
  /// `m` is run only if this does it.
  [[nodiscard]] static bool is_needed(io_multiplexer const& m) noexcept {
    return m.run_by() != io_multiplexer::runner::another_thread && !runs_here::is(m);
  }
  /// The first or the next turn.
  void await_turn() noexcept {
    turn_.emplace(ex::get_env(static_cast<Of&>(*this).receiver_), this);
    ex::start(turn_->operation);
  }
  /// The receiver is completed in a turn, and not before.
  [[nodiscard]] bool is_delegated() const noexcept { return runs_ != nullptr; }
  /// On whichever thread runs the multiplexer. This object may be destroyed by then.
  void set_ended() noexcept { has_ended_.store(true, std::memory_order_release); } // pairs with has_ended()

 private:
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  void turn() noexcept {
    Of& self = static_cast<Of&>(*this);
    if (runs_ != nullptr) {
      if (!has_ended()) delegated_run::turn(*runs_);
    } else {
      io_multiplexer* const m = runs_ = delegated_run::begin(self.delegated_multiplexer());
      self.start_delegated();
      if (m == nullptr) return; // this object may be destroyed by now
    }
    if (has_ended()) {
      end();
    } else {
      await_turn();
    }
  }
  void refused() noexcept {
    if (runs_ == nullptr) return static_cast<Of&>(*this).refuse();
    while (!has_ended()) delegated_run::turn(*runs_);
    end();
  }
  void end() noexcept {
    delegated_run::end();
    static_cast<Of&>(*this).complete();
  }

  std::optional<scheduled> turn_;
  io_multiplexer* runs_ = nullptr;
  std::atomic<bool> has_ended_{false};
};
struct not_delegating {};
template <class Of, class Receiver>
using delegation_of = std::conditional_t<place_of<ex::env_of_t<Receiver>>::delegates,
                                         delegating<Of, ex::env_of_t<Receiver>>, not_delegating>;

// ---- operations -------------------------------------------------------------------------------------------

template <class Sender> struct standard_completions {
  using type = ex::completion_signatures<ex::set_value_t(typename Sender::result_type), ex::set_stopped_t()>;
};

/// See unio/execution.hpp.
template <class Sender, class Receiver>
class standard_operation : message_link<standard_operation<Sender, Receiver>>,
                           Sender,
                           delegation_of<standard_operation<Sender, Receiver>, Receiver> {
  using link = message_link<standard_operation>;
  using place = place_of<ex::env_of_t<Receiver>>;
  friend delegation_of<standard_operation, Receiver>;
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
    io_multiplexer* const given = place::multiplexer(ex::get_env(receiver_));
    if constexpr (place::delegates) {
      if (this->is_needed(this->chosen(given))) return this->await_turn();
    } else if constexpr (UNIO_IS_DEBUG && place::is_foreign) {
      if (io_multiplexer const& m = this->chosen(given); &m == this_thread::multiplexer_if_any())
        expect_is_run(m);
    }
    start_on(given);
  }

 private:
  void start_on(io_multiplexer* given) noexcept {
    token_type const token = ex::get_stop_token(ex::get_env(receiver_));
    bool const stoppable = token.stop_possible();
    io_multiplexer const& m = this->chosen(given);
    bool const elsewhere = m.runs_elsewhere();
    if (stoppable || elsewhere || m.is_shared()) this->set_atomic(link::next_message_);
    if (stoppable && token.stop_requested()) return refuse();
    if (elsewhere) {
      if (stoppable) callback_.emplace(token, on_stop{this});
      if (!gate_.open()) return refuse();
      io_operation::start(given); // this object may be destroyed by now
      return;
    }
    bool finished_inside = false;
    finished_inside_ = &finished_inside;
    io_operation::start(given);
    if (finished_inside) return; // this object may be destroyed by now
    finished_inside_ = nullptr;
    (void)gate_.open();
    if (stoppable) callback_.emplace(token, on_stop{this});
    if (this->is_atomic()) this->let_be_taken(); // this object may be destroyed from here on
  }
  void refuse() noexcept {
    callback_.reset();
    io_operation::refuse(-static_cast<int>(std::errc::operation_canceled));
    if constexpr (place::delegates)
      if (this->is_delegated()) return this->set_ended();
    ex::set_stopped(std::move(receiver_));
  }
  io_multiplexer& delegated_multiplexer() noexcept {
    return this->chosen(place::multiplexer(ex::get_env(receiver_)));
  }
  void start_delegated() noexcept { start_on(place::multiplexer(ex::get_env(receiver_))); }
  void complete() noexcept {
    typename Sender::result_type result = this->result();
    if (result.error() == condition::canceled &&
        ex::get_stop_token(ex::get_env(receiver_)).stop_requested()) {
      ex::set_stopped(std::move(receiver_));
    } else {
      ex::set_value(std::move(receiver_), std::move(result));
    }
  }
  static void notify(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    auto& self = static_cast<standard_operation&>(op);
    self.callback_.reset();
    self.mark_finished();
    if (self.finished_inside_ != nullptr) *self.finished_inside_ = true;
    if constexpr (place::delegates) {
      if (self.is_delegated()) return self.set_ended();
      runs_here const here(self.multiplexer());
      self.complete();
    } else {
      self.complete();
    }
  }

  Receiver receiver_;
  bool* finished_inside_ = nullptr; // while start() is under way on this thread
  stop_gate gate_;
  std::optional<ex::stop_callback_for_t<token_type, on_stop>> callback_;
};

// ---- executors --------------------------------------------------------------------------------------------

template <class Executor> io_multiplexer* multiplexer_of(Executor const& e) noexcept {
  return executor_ref(e).multiplexer();
}

template <class Executor, class Receiver>
class schedule_operation : work, delegation_of<schedule_operation<Executor, Receiver>, Receiver> {
  using place = place_of<ex::env_of_t<Receiver>>;
  friend delegation_of<schedule_operation, Receiver>;

 public:
  using operation_state_concept = ex::operation_state_t;
  schedule_operation(Executor executor, Receiver&& receiver)
      : work(&ran), executor_(std::move(executor)), receiver_(std::move(receiver)) {}
  schedule_operation(schedule_operation&&) = delete;
  void start() & noexcept {
    if constexpr (place::delegates)
      if (io_multiplexer const* const m = multiplexer_of(executor_); m != nullptr && this->is_needed(*m))
        return this->await_turn();
    post();
  }

 private:
  void post() noexcept {
    Executor const executor = executor_; // this object may be destroyed before post() returns
    executor.post(static_cast<work&>(*this));
  }
  io_multiplexer& delegated_multiplexer() noexcept { return *multiplexer_of(executor_); }
  void start_delegated() noexcept { post(); }
  void refuse() noexcept { ex::set_stopped(std::move(receiver_)); }
  void complete() noexcept {
    if (!runs_ || ex::get_stop_token(ex::get_env(receiver_)).stop_requested()) {
      ex::set_stopped(std::move(receiver_));
    } else {
      ex::set_value(std::move(receiver_));
    }
  }
  static void ran(work& w, bool run) noexcept {
    auto& self = static_cast<schedule_operation&>(w);
    self.runs_ = run;
    if constexpr (place::delegates) {
      if (self.is_delegated()) return self.set_ended();
      if (io_multiplexer const* const m = multiplexer_of(self.executor_); run && m != nullptr) {
        runs_here const here(m);
        return self.complete();
      }
    }
    self.complete();
  }
  Executor executor_;
  Receiver receiver_;
  bool runs_ = false; // the executor had not ended
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
  template <std::same_as<Executor> E> explicit schedule_sender(E executor) : executor_(std::move(executor)) {}
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
  // No conversion: executor_ref, which any executor converts to, would look whether a scheduler is one.
  template <std::same_as<Executor> E>
  explicit executor_scheduler(E executor) : executor_(std::move(executor)) {}
  [[nodiscard]] schedule_sender<Executor> schedule() const { return schedule_sender<Executor>(executor_); }
  [[nodiscard]] Executor const& executor() const noexcept { return executor_; }
  /// Null if it has none.
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return executor_ref(executor_).multiplexer(); }
  bool operator==(executor_scheduler const& other) const noexcept { return executor_ == other.executor_; }

 private:
  Executor executor_;
};

// ---- tasks ------------------------------------------------------------------------------------------------

/// `Chooses`: it runs on the multiplexer of the thread that starts it, instead of its executor.
template <class Executor, class T, class Receiver, bool Chooses = false>
class task_operation : public root<task_operation<Executor, T, Receiver, Chooses>, Executor, T>,
                       delegation_of<task_operation<Executor, T, Receiver, Chooses>, Receiver> {
  using base = root<task_operation, Executor, T>;
  using place = place_of<ex::env_of_t<Receiver>>;
  friend delegation_of<task_operation, Receiver>;
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

template <class Sender> class UNIO_TO_AWAIT sender_awaitable : sender_wait {
  struct env {
    sender_wait* wait;
    [[nodiscard]] standard_stop_token query(ex::get_stop_token_t) const noexcept { return wait->token(); }
    template <class Query>
      requires(std::same_as<Query, ex::get_scheduler_t> || std::same_as<Query, start_scheduler_t>)
    [[nodiscard]] executor_scheduler<executor_ref> query(Query) const noexcept {
      return executor_scheduler<executor_ref>(wait->executor());
    }
  };
  using values = typename value_of_signatures<ex::completion_signatures_of_t<Sender, env>>::type;

  struct receiver {
    using receiver_concept = ex::receiver_t;
    sender_awaitable* self;
    template <class... V> void set_value(V&&... v) && noexcept {
      self->error_ = exception_of([&] { self->values_.emplace(std::forward<V>(v)...); }); // of a copy, say
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
    with_ = &e;
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

template <ex::sender Sender> struct awaiter_in_place_of<Sender> {
  using type = sender_awaitable<Sender>;
};

template <class Sender>
using awaited_of = decltype(std::declval<sender_awaitable<std::remove_cvref_t<Sender>>&>().await_resume());
template <class Sender> task<awaited_of<Sender>> await_sender(Sender sender) {
  co_return co_await sender_awaitable<Sender>(std::move(sender));
}

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
template <is_executor Executor> inline detail::executor_scheduler<Executor> as_scheduler(Executor executor) {
  return detail::executor_scheduler<Executor>(std::move(executor));
}
template <class Sender>
inline detail::sender_awaitable<std::remove_cvref_t<Sender>> as_awaitable(Sender&& sender) {
  return detail::sender_awaitable<std::remove_cvref_t<Sender>>(std::forward<Sender>(sender));
}

template <class Sender>
  requires detail::only_a_sender<Sender>
auto sync_wait(Sender&& sender, run_options const& options) {
  using decayed = std::remove_cvref_t<Sender>;
  return run(detail::await_sender<decayed>(std::forward<Sender>(sender)), options);
}

} // namespace unio
