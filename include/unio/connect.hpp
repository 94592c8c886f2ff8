// unio/connect.hpp: from a described operation to one that runs.
//
//   connect(sender, receiver)   an operation bound to who is told
//   io_operation_connection     start · poll · cancel · reset
//   io_awaitable                the same operation, awaited by a coroutine
//   receiver_of                 what a receiver must offer

#pragma once

#include <unio/multiplexer.hpp>
#include <unio/operation.hpp>

#include <concepts>
#include <coroutine>
#include <utility>

namespace unio {

/// A receiver is told the result as early as it is known (set_value), and then, always, once and last, that state and
/// buffers may be reused (set_done). There is no set_error: failure is in the result. Neither may throw.
template <class Receiver, class Sender>
concept receiver_of = requires(Receiver& r, typename Sender::result_type result) {
  r.set_value(std::move(result));
  r.set_done();
};

/// An operation bound to its receiver. Movable until it is started; pinned from then until it has finished.
///
/// Concurrency   the thread that runs the multiplexer; connections of atomic_ senders: any thread
/// Destruction   of one in flight cancels it and drives its multiplexer until it has finished: that can wait. The receiver
///               is not told any more. Not allowed inside set_value; allowed inside set_done
/// Cost          no allocation, no lock, no exception
/// Source        D2052R0 §4.3
template <class Sender, class Receiver> class io_operation_connection : public Sender {
 public:
  using result_type = typename Sender::result_type;

  io_operation_connection() = default; // not there if the receiver has no such constructor
  io_operation_connection(Sender sender, Receiver receiver)
      : Sender(std::move(sender)), receiver_(std::move(receiver)) {
    this->set_notification(&notify);
  }
  io_operation_connection(io_operation_connection&&) = default;
  io_operation_connection& operator=(io_operation_connection&&) = default;
  ~io_operation_connection() { this->abandon(); }

  [[nodiscard]] Receiver& receiver() noexcept { return receiver_; }

 private:
  static void notify(io_operation& op, unsigned events) noexcept {
    auto& self = static_cast<io_operation_connection&>(op);
    if ((events & io_operation::value) != 0) self.receiver_.set_value(self.result());
    if ((events & io_operation::done) != 0) {
      self.mark_finished();
      self.receiver_.set_done(); // may destroy, move or restart the connection
    }
  }

  Receiver receiver_;
};

/// Binds a described operation to who is told of its result. Starts nothing.
template <class Sender, class Receiver>
  requires(std::derived_from<std::remove_cvref_t<Sender>, io_operation> &&
           receiver_of<std::remove_cvref_t<Receiver>, std::remove_cvref_t<Sender>>)
[[nodiscard]] auto connect(Sender&& sender, Receiver&& receiver) {
  return io_operation_connection<std::remove_cvref_t<Sender>, std::remove_cvref_t<Receiver>>(
      std::forward<Sender>(sender), std::forward<Receiver>(receiver));
}

/// The same operation, awaited. Starts in await_ready(); what completes inline does not suspend the coroutine.
///
/// Resumes       on the thread that runs the multiplexer, once the operation has finished
/// Destruction   of a coroutine suspended here cancels the operation and drives its multiplexer until it has finished
/// Cost          no allocation beyond the coroutine's own frame
/// Source        D2052R0 §4.2
template <class Sender> class [[nodiscard]] io_awaitable : private Sender {
 public:
  explicit io_awaitable(Sender sender) : Sender(std::move(sender)) {
    this->set_quiet();
    this->set_notification(&notify);
  }
  io_awaitable(io_awaitable&&) = default;
  io_awaitable& operator=(io_awaitable&&) = default;
  ~io_awaitable() { this->abandon(); }

  bool await_ready() noexcept {
    this->start();
    return this->finished();
  }
  void await_suspend(std::coroutine_handle<> h) noexcept { waiting_ = h; }
  typename Sender::result_type await_resume() noexcept { return this->result(); }

 private:
  static void notify(io_operation& op, unsigned events) noexcept {
    auto& self = static_cast<io_awaitable&>(op);
    if ((events & io_operation::done) != 0) {
      self.mark_finished();
      self.waiting_.resume();
    }
  }

  std::coroutine_handle<> waiting_;
};

} // namespace unio
