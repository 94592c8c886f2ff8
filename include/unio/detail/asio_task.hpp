// unio/detail/asio_task.hpp: a task of unio's with a handler of Asio's.
//
//   asio_task_operation    a task, from its start until its handler is called
//
// The task runs on the multiplexer of the asio_context; with another context on that of the thread that
// starts it, and ends with that thread, also where it has not begun.

#pragma once

#include <unio/async_task.hpp>
#include <unio/detail/asio_operation.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

namespace unio::inline v0_1::sys {
UNIO_API extern std::atomic<unsigned> fork_count; // as in sys/fork.hpp
} // namespace unio::sys

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// What a handler is called with for the outcome of a task: as co_spawn().
struct asio_value_of_task {
  template <class T> struct of {
    using signature = void(std::exception_ptr, T);
    static std::tuple<std::exception_ptr, T> arguments(task_outcome<T>&& outcome, auto const&) {
      if (outcome.has_value()) return {nullptr, *std::move(outcome)};
      return {outcome.error(), T()};
    }
  };
};
template <> struct asio_value_of_task::of<void> {
  using signature = void(std::exception_ptr);
  static std::tuple<std::exception_ptr> arguments(task_outcome<void>&& outcome, auto const&) noexcept {
    if (outcome.has_value()) return {nullptr};
    return {outcome.error()};
  }
};
/// The same for a task that is a read or write of a stream. What leaves it leaves run().
struct asio_transfer_of_task {
  template <class T> struct of {
    template <class Buffers>
    static std::tuple<asio_error_code, std::size_t> arguments(task_outcome<T>&& outcome, Buffers const& b) {
      if (outcome.has_value()) {
        bool const reads = std::same_as<T, io_result<mutable_buffers>>;
        if constexpr (std::same_as<T, io_result<mutable_buffers>>)
          if (outcome->has_value()) asio_settle(b.list(), **outcome);
        return asio_result<T>::arguments(*outcome, reads);
      }
      if (is_bad_alloc(outcome.error())) return {net::error::make_error_code(net::error::no_memory), 0};
      std::rethrow_exception(outcome.error());
    }
  };
};

template <class Policy, class T, class Buffers, class Handler, class Executor>
class asio_task_operation final
    : public asio_handler<asio_task_operation<Policy, T, Buffers, Handler, Executor>, Handler, Executor>,
      Buffers {
  using base = asio_handler<asio_task_operation, Handler, Executor>;
  using memory = asio_memory<typename base::allocator_type, asio_task_operation>;

 public:
  /// `make(buffers)` returns the task.
  template <class Make, class... Sequence>
  static void start(asio_service& s, asio_group* group, Handler&& h, Executor const& e, Make&& make,
                    Sequence const&... sequence) {
    auto const a = net::get_associated_allocator(h);
    asio_task_operation* const self = memory::make(a, s, std::move(h), e, sequence...);
    try {
      self->begin(group, make(static_cast<Buffers&>(*self)));
    } catch (...) {
      (void)self->leave_group();
      self->destroy();
      throw;
    }
  }
  template <class... Sequence>
  asio_task_operation(asio_service& s, Handler&& h, Executor const& e, Sequence const&... sequence)
      : base(functions_of, s, std::move(h), e), Buffers(sequence...) {}
  auto arguments() {
    return Policy::template of<T>::arguments(*std::move(outcome_), static_cast<Buffers&>(*this));
  }
  void free(typename base::allocator_type const& a) noexcept {
    this->~asio_task_operation();
    memory::free(a, this);
  }

 private:
  /// Called when the task has ended. Destroyed uncalled: so has its multiplexer, before it began.
  class ends {
   public:
    explicit ends(asio_task_operation& o) noexcept : operation_(&o) {}
    ends(ends&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
    ends& operator=(ends&&) = delete;
    ~ends() {
      if (operation_ == nullptr) return;
      std::error_code const why = make_error_code(error::multiplexer_destroyed);
      if constexpr (std::constructible_from<T, std::error_code>) {
        operation_->ended(task_outcome<T>(std::in_place, why));
      } else {
        operation_->ended(task_outcome<T>(std::unexpect, std::make_exception_ptr(std::system_error(why))));
      }
    }
    void operator()(task_outcome<T> outcome) noexcept {
      std::exchange(operation_, nullptr)->ended(std::move(outcome));
    }

   private:
    asio_task_operation* operation_;
  };

  void begin(asio_group* group, task<T> t) {
    asio_service& s = *this->service;
    (void)this->connect_slot();
    (group != nullptr ? *group : s.group()).insert(*this);
    using root = async_root<multiplexer_executor, T, ends>;
    run_options const options{.stop = stop_.get_token()};
    (new root(s.of_tasks().executor(), std::move(t), ends(*this), options))->post();
  }
  void ended(task_outcome<T> outcome) noexcept {
    outcome_.emplace(std::move(outcome));
    bool const is_dropped = !this->leave_group();
    has_ended_.store(true, std::memory_order_release); // pairs with drop(), which then destroys this object
    if (!is_dropped) asio_arrive(*this);
  }
  static void call(asio_node& n) { static_cast<asio_task_operation&>(n).end(); }
  static void drop(asio_node& n) noexcept {
    auto& self = static_cast<asio_task_operation&>(n);
    n.service->unqueue(n);
    if (!self.has_ended_.load(std::memory_order_acquire)) {
      if (self.forks_ != sys::fork_count.load(std::memory_order_relaxed))
        return; // in this child nothing ends it
      self.stop_.request_stop();
      io_multiplexer& m = n.service->of_tasks();
      while (!self.has_ended_.load(std::memory_order_acquire)) {
        result<int> const ran = m.try_run_for(std::chrono::milliseconds(10));
        if (!ran.has_value() || *ran == 0) std::this_thread::yield(); // it waits for something elsewhere
      }
    }
    self.destroy();
  }
  static void cancel(asio_node& n) noexcept { static_cast<asio_task_operation&>(n).stop_.request_stop(); }
  static constexpr asio_node_functions functions_of{&call, &drop, &cancel};

  stop_source stop_;
  std::optional<task_outcome<T>> outcome_;
  std::atomic<bool> has_ended_{false}; // and has left its group, or is being dropped
  unsigned const forks_ = sys::fork_count.load(std::memory_order_relaxed); // of the process that has it
};

template <class T> struct asio_task_value;
template <class T> struct asio_task_value<task<T>> {
  using type = T;
};

/// Starts a task for an object. See asio_task_operation::start.
template <class Policy, class Buffers = asio_no_buffers, class Handler, class Executor, class Make,
          class... Sequence>
void asio_begin_task(asio_group& group, Handler&& h, Executor const& e, Make&& make,
                     Sequence const&... sequence) {
  using value = typename asio_task_value<std::invoke_result_t<Make&, Buffers&>>::type;
  using operation = asio_task_operation<Policy, value, Buffers, std::decay_t<Handler>, Executor>;
  std::decay_t<Handler> handler(static_cast<Handler&&>(h));
  operation::start(group.service(), &group, std::move(handler), e, static_cast<Make&&>(make), sequence...);
}

/// Initiates a task.
template <class Executor> struct asio_initiates_task {
  using executor_type = Executor;
  Executor executor;
  [[nodiscard]] executor_type get_executor() const noexcept { return executor; }
  template <class Handler, class T> void operator()(Handler&& h, task<T> t) const {
    using operation =
        asio_task_operation<asio_value_of_task, T, asio_no_buffers, std::decay_t<Handler>, Executor>;
    std::decay_t<Handler> handler(static_cast<Handler&&>(h));
    operation::start(asio_service_of(executor), nullptr, std::move(handler), executor,
                     [&](asio_no_buffers&) { return std::move(t); });
  }
};

} // namespace unio::detail
