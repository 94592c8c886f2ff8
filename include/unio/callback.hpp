// unio/callback.hpp: an operation whose result is given to a function.
//
//   start(sender, handler)             handler(result), where the operation is run
//   start(executor, sender, handler)   handler(result), there
//
//   unio::start(unio::async_read(socket, room), [](unio::io_result<unio::mutable_buffers> r) { … });
//
// For programs that are written in callbacks. What a coroutine would keep in its frame is here a block, which the next
// operation finds again.

#pragma once

#include <unio/connect.hpp>
#include <unio/frames.hpp>

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace unio {

namespace detail {

/// What an operation that was started with a handler has beside itself: its turn on an executor, and its place among what
/// a stop ends. In no template, so that there is one of it, in src/io/callback.cpp. It comes before the operation: see
/// set_atomic().
class calling_back : public work, public stop_node {
 public:
  calling_back(work::function on_turn, stop_node::function on_stop, stop_token stop) noexcept
      : work(on_turn), stop_node(on_stop), stop_(stop) {}

  using refused_function = void (*)(calling_back&, io_multiplexer&) noexcept;
  /// Starts it, after which it may be gone; or, if a stop was requested, refuses it and says so.
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
  io_operation* next_message_ = nullptr; // the operation's, once it is atomic
};

struct where_it_runs {}; // no executor

/// The operation, its handler and its executor in one block of the frame pool.
template <class Sender, class Handler, class Executor> class callback_operation final : calling_back, Sender {
  static_assert(std::is_nothrow_move_constructible_v<Handler> && std::is_nothrow_move_constructible_v<Sender>,
                "a handler is moved out of its block, and must be moved without an exception");

 public:
  static void start(Executor executor, Sender&& sender, Handler handler, stop_token stop) {
    static_assert(alignof(callback_operation) <= alignof(std::max_align_t));
    UNIO_EXPECTS(!sender.is_multishot(),
                 "an operation that yields many values needs a receiver: see connect()");
    void* const memory = frame_pool::allocate(sizeof(callback_operation));
    auto* const self =
        ::new (memory) callback_operation(std::move(executor), std::move(sender), std::move(handler), stop);
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
      m->post(static_cast<work&>(*this));
    } else {
      Executor const executor = executor_; // this may be gone before post() has returned
      executor.post(static_cast<work&>(*this));
    }
  }
  static void on_turn(work& w, bool run) noexcept {
    auto& self = static_cast<callback_operation&>(w);
    run ? self.call() : self.destroy();
  }
  static void on_stop(stop_node& n) noexcept { calling_back::stop(static_cast<callback_operation&>(n)); }

  void call() noexcept {
    typename Sender::result_type result = this->result();
    Handler handler = std::move(handler_);
    [[maybe_unused]] Executor const executor = std::move(executor_); // the handler may be the last to need it
    destroy();
    handler(std::move(result));
  }
  void destroy() noexcept {
    this->~callback_operation();
    frame_pool::deallocate(this, sizeof(callback_operation));
  }

  [[no_unique_address]] Executor executor_;
  Handler handler_;
};

template <class Handler, class Sender>
concept handler_of = std::derived_from<Sender, io_operation> &&
                     std::invocable<std::decay_t<Handler>&, typename Sender::result_type>;

} // namespace detail

/// Starts an operation, and goes on. Its result is given to `handler`.
///
/// Effects        starts `sender` on its handle's multiplexer; where that has none, on the executor's or, without one, the
///                calling thread's own
/// Calls          `handler(result)`, once, when the operation has finished: without an executor on the thread that runs the
///                multiplexer, possibly before start() returns; but never inside of another handler, so that handlers that
///                start the next operation do not nest. With an executor: there; posted, unless it is the multiplexer's own.
///                The handler must not throw
/// Errors         in the result; std::bad_alloc, before anything was started
/// Preconditions  not an operation that yields many values: those are connected to a receiver
/// Buffers        the caller's, until the handler is called
/// Concurrency    where another thread runs the multiplexer, that one starts the operation
/// Cancellation   by `stop`, from any thread, as io_operation::cancel(). After a stop it does not start; the handler is
///                told condition::canceled then too, later, as if it had been posted. The token's source must outlive it
/// Lifetime       the operation, the handler and the executor are in one block, which is given back before the handler is
///                called: an operation that it starts finds the block that was just freed. If the multiplexer ends first, the
///                operation does too, and the handler is told; if the executor ends before the handler's turn has come, it is
///                destroyed and not called
/// Cost           one block from the frame pool; after warm-up no allocation and no lock
/// Source         *Coroutine-first asynchronous I/O* §10.2
template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Sender sender, Handler&& handler, stop_token stop = {}) {
  detail::callback_operation<Sender, std::decay_t<Handler>, detail::where_it_runs>::start(
      {}, std::move(sender), std::forward<Handler>(handler), stop);
}
template <is_executor Executor, class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Executor executor, Sender sender, Handler&& handler, stop_token stop = {}) {
  detail::callback_operation<Sender, std::decay_t<Handler>, Executor>::start(
      std::move(executor), std::move(sender), std::forward<Handler>(handler), stop);
}
/// On a multiplexer, which must outlive the operation.
template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(io_multiplexer& m, Sender sender, Handler&& handler, stop_token stop = {}) {
  start(m.executor(), std::move(sender), std::forward<Handler>(handler), stop);
}

} // namespace unio
