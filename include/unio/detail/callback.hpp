// unio/detail/callback.hpp: the block of an operation that was started with a handler.

#pragma once

#include <unio/callback.hpp>
#include <unio/frames.hpp>

namespace unio::inline v0_1::detail {

/// What an operation with a handler needs in addition: its turn on an executor, and its stop callback. Not
/// a template (src/coro/callback.cpp). It precedes the operation: see set_atomic(). An operation may be
/// `work` itself, privately: what is this one's is reached by way of this class.
class calling_back : public work, public stop_node {
 public:
  calling_back(work::function on_turn, stop_node::function on_stop, stop_token stop) noexcept
      : work(on_turn), stop_node(on_stop), stop_(stop) {}

  [[nodiscard]] work& turn() noexcept { return *this; }

  using refused_function = void (*)(calling_back&, io_multiplexer&) noexcept;
  /// Starts the operation, which may be destroyed by then; after a stop, calls `refused` instead.
  UNIO_API void start(io_operation& op, io_multiplexer* given, refused_function refused) noexcept;
  /// It has finished.
  UNIO_API void finished(io_operation& op) noexcept;
  /// A stop was requested.
  UNIO_API static void stop(io_operation& op) noexcept;

 private:
  [[nodiscard]] bool start_here(io_operation& op, io_multiplexer& m) noexcept;
  [[nodiscard]] bool start_elsewhere(io_operation& op, io_multiplexer& m) noexcept;

  stop_token stop_;
  bool* finished_inside_ = nullptr;      // while start() is under way on this thread
  bool attached_ = false;                // to the stop token, or it was tried
  io_operation* next_message_ = nullptr; // for the operation, once it is atomic
};

struct where_it_runs {}; // no executor

/// The operation, its handler and its executor in one block of the frame pool.
template <class Sender, class Handler, class Executor>
class callback_operation final : calling_back, Sender, public pooled_frames {
  static_assert(std::is_nothrow_move_constructible_v<Handler> && std::is_nothrow_move_constructible_v<Sender>,
                "a handler is moved out of its block, and must be moved without an exception");

 public:
  static void start(Executor executor, Sender&& sender, Handler handler, stop_token stop) {
    static_assert(alignof(callback_operation) <= alignof(std::max_align_t));
    UNIO_EXPECTS(!sender.is_multishot(),
                 "an operation that yields many values needs a receiver: see connect()");
    auto* const self =
        new callback_operation(std::move(executor), std::move(sender), std::move(handler), stop);
    io_multiplexer* const m = self->multiplexer_of_executor();
    self->calling_back::start(*self, m, [](calling_back& refused, io_multiplexer& runner) noexcept {
      static_cast<callback_operation&>(refused).take_turn(&runner);
    });
  }

 private:
  callback_operation(Executor&& executor, Sender&& sender, Handler&& handler, stop_token stop) noexcept
      : calling_back(&on_turn, &on_stop, stop),
        Sender(std::move(sender)),
        executor_(std::move(executor)),
        handler_(std::move(handler)) {
    this->set_notification(&notify);
  }

  [[nodiscard]] io_multiplexer* multiplexer_of_executor() const noexcept {
    if constexpr (std::same_as<Executor, where_it_runs>) {
      return nullptr;
    } else {
      return executor_ref(executor_).multiplexer();
    }
  }

  static void notify(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    auto& self = static_cast<callback_operation&>(op);
    self.calling_back::finished(op);
    if constexpr (!std::same_as<Executor, where_it_runs>) {
      multiplexer_executor const here = op.multiplexer()->executor();
      if (executor_ref(self.executor_) != executor_ref(here)) return self.take_turn(nullptr);
    }
    self.call();
  }

  /// Has the handler called later: by its executor, or else by `m`.
  void take_turn(io_multiplexer* m) noexcept {
    if constexpr (std::same_as<Executor, where_it_runs>) {
      m->post(this->turn());
    } else {
      Executor const executor = executor_; // this object may be destroyed before post() returns
      executor.post(this->turn());
    }
  }
  static void on_turn(unio::work& w, bool run) noexcept {
    auto& self = static_cast<callback_operation&>(static_cast<calling_back&>(w));
    run ? self.call() : delete &self;
  }
  static void on_stop(unio::stop_node& n) noexcept {
    calling_back::stop(static_cast<callback_operation&>(static_cast<calling_back&>(n)));
  }

  void call() noexcept {
    typename Sender::result_type result = this->result();
    Handler handler = std::move(handler_);
    [[maybe_unused]] Executor const executor = std::move(executor_); // the handler may be the last to need it
    delete this;
    handler(std::move(result));
  }

  [[no_unique_address]] Executor executor_;
  Handler handler_;
};

} // namespace unio::detail

namespace unio::inline v0_1 {

template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Sender sender, Handler&& handler, stop_token stop) {
  detail::callback_operation<Sender, std::decay_t<Handler>, detail::where_it_runs>::start(
      {}, std::move(sender), std::forward<Handler>(handler), stop);
}
template <is_executor Executor, class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Executor executor, Sender sender, Handler&& handler, stop_token stop) {
  detail::callback_operation<Sender, std::decay_t<Handler>, Executor>::start(
      std::move(executor), std::move(sender), std::forward<Handler>(handler), stop);
}
template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(io_multiplexer& m, Sender sender, Handler&& handler, stop_token stop) {
  start(m.executor(), std::move(sender), std::forward<Handler>(handler), stop);
}

// A handler that does not take the result: an error that says what to write.
template <class Sender, class Handler>
  requires detail::mistaken_handler<Handler, Sender>
void start(Sender, Handler&&, stop_token = {}) {
  static_assert(detail::handler_of<Handler, Sender>,
                "the handler is called with the operation's result: write [](auto result) { ... }");
}
template <class Place, class Sender, class Handler>
  requires detail::mistaken_handler<Handler, Sender>
void start(Place&&, Sender sender, Handler&& handler, stop_token = {}) {
  start(std::move(sender), std::forward<Handler>(handler));
}

} // namespace unio
