// unio/detail/schedulers.hpp: what is a sender; executors as schedulers, and what the environment of a
// receiver says about where an operation runs.

#pragma once

#include <unio/detail/execution.hpp>
#include <unio/detail/operations.hpp>
#include <unio/detail/run.hpp>
#include <unio/detail/sender_wait.hpp>
#include <unio/detail/standard_sender.hpp>
#include <unio/executor.hpp>
#include <unio/run.hpp>
#include <unio/task.hpp>

#include <atomic>
#include <optional>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

template <class Executor, class T> class task_sender;
template <class Executor> class executor_scheduler;
template <class Sender> class sender_awaitable;
/// A sender of the standard's that no coroutine could await otherwise.
template <class Sender>
concept only_a_sender = ex::sender<std::remove_cvref_t<Sender>> &&
                        !requires(Sender&& s) { awaiter_of(static_cast<Sender&&>(s)).await_resume(); };
template <class Operation, class Result> void yields_many(operation_with<Operation, repeated<Result>> const&);
/// An operation that is a sender, and no more than that.
template <class Sender>
concept yields_once =
    std::derived_from<Sender, standard_sender<Sender>> && !requires(Sender& s) { yields_many<Sender>(s); };

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

} // namespace unio::detail

namespace unio::inline v0_1 {

template <is_executor Executor>
[[nodiscard]] inline detail::executor_scheduler<Executor> as_scheduler(Executor executor) {
  return detail::executor_scheduler<Executor>(std::move(executor));
}

} // namespace unio
