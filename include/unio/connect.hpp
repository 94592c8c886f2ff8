// unio/connect.hpp: binding an operation to a receiver, or awaiting it.
//
//   connect(sender, receiver)   an operation bound to its receiver
//   io_operation_connection     start · poll · cancel · reset
//   io_awaitable                the same operation, awaited by a coroutine
//   receiver_of                 what a receiver must offer

#pragma once

#include <unio/executor.hpp>
#include <unio/multiplexer.hpp>
#include <unio/operation.hpp>

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

/// A receiver gets the result as early as it is known (set_value). Last, always and exactly once, set_done
/// says that state and buffers may be reused. Neither throws. A failure is part of the result.
template <class Receiver, class Sender>
concept receiver_of = requires(Receiver& r, typename Sender::result_type result) {
  r.set_value(std::move(result));
  r.set_done();
};

/// An operation bound to its receiver. Movable until it is started; pinned from then until it has finished.
///
/// Concurrency   the thread that runs the multiplexer; if several may, any starts it, and the one that then
///               runs it does the rest. Connections of atomic_ senders: any thread, for which they have
///               finished once set_done has returned
/// Throws        what moving the receiver throws, before it is started; nothing later
/// Destruction   in flight cancels the operation and waits until it has finished. It calls no receiver; of
///               files, names, and pages that are being sent, those of others. On another thread it waits for
///               the one that runs it, and for a call of the receiver that is under way. Where that one waits
///               for this thread in the same way, or closes what it has in flight, this thread's multiplexers
///               go on as well. Not allowed inside set_value; allowed inside set_done
/// Cost          no allocation, no lock, no exception
/// Source        D2052R0 §4.3
template <class Sender, class Receiver> class io_operation_connection : public Sender {
 public:
  using result_type = typename Sender::result_type;

  io_operation_connection() = default; // not there if the receiver has no such constructor
  io_operation_connection(Sender sender, Receiver receiver);
  io_operation_connection(io_operation_connection&&) = default;
  io_operation_connection& operator=(io_operation_connection&&) = default;
  ~io_operation_connection() { this->abandon(); }

  [[nodiscard]] Receiver& receiver() noexcept { return receiver_; }

 private:
  static void notify(io_operation& op, unsigned events) noexcept;
  Receiver receiver_;
};

/// Binds a described operation to the receiver of its result. Starts nothing.
///
/// Returns      an io_operation_connection
/// Throws       what moving the receiver throws
/// Concurrency  from any thread
/// Cost         two moves; no allocation
template <class Sender, class Receiver>
  requires(std::derived_from<std::remove_cvref_t<Sender>, io_operation> &&
           receiver_of<std::remove_cvref_t<Receiver>, std::remove_cvref_t<Sender>>)
[[nodiscard]] auto connect(Sender&& sender, Receiver&& receiver);

namespace detail {

/// The base of every io_awaitable: what an awaited operation has more than others, which is its coroutine and
/// its stop callback. Not a template (src/driver/awaiting.cpp). It precedes the operation: see set_atomic().
class awaiting : public stop_node {
 public:
  explicit awaiting(stop_node::function on_stop) noexcept : stop_node(on_stop) {}
  awaiting& operator=(awaiting const&) = delete;

  void bind(environment const& e) noexcept { environment_ = &e; }
  [[nodiscard]] bool is_bound() const noexcept { return environment_ != nullptr; }
  /// Starts it, unless a stop was requested or another thread must start it, which suspend() arranges. It may
  /// have finished on return.
  UNIO_API void start(io_operation& op) noexcept;
  /// False: do not suspend, because the operation will not start.
  UNIO_API bool suspend(io_operation& op, std::coroutine_handle<> h) noexcept;
  /// The operation has ended: resumes the coroutine on its executor.
  UNIO_API void notify(io_operation& op) noexcept;
  /// A stop was requested.
  UNIO_API static void stop(io_operation& op) noexcept;
  /// Its coroutine is being destroyed: withdraws the resumption if it is queued.
  UNIO_API void leave(io_operation& op) noexcept;

 private:
  std::coroutine_handle<> handle_;
  environment const* environment_ = nullptr;
  io_operation* next_message_ = nullptr; // for the operation, once it is atomic
};

} // namespace detail

/// An operation as an awaitable. Starts in await_ready(); one that completes inline does not suspend.
///
/// Resumes       on the executor of the coroutine's environment, once the operation has finished; without an
///               environment, on the thread that runs the multiplexer
/// Runs on       its handle's multiplexer; if it has none, the environment's; otherwise the thread's own.
///               Another thread may be running it
/// Throws        what making the sender throws: nothing for those of unio
/// Lifetime      as the sender says; until it has resumed
/// Concurrency   one coroutine awaits it, once
/// Cancellation  by the environment's stop token, from any thread; after a stop it does not start
/// Destruction   of the suspended coroutine cancels it and drives its multiplexer until it has finished
/// Cost          no allocation beyond the coroutine's own frame
/// Source        D2052R0 §4.2; *Coroutine-first asynchronous I/O* §6
template <class Sender> class UNIO_TO_AWAIT io_awaitable : private detail::awaiting, private Sender {
 public:
  using result_type = typename Sender::result_type;

  explicit io_awaitable(Sender sender) : io_awaitable(std::in_place, static_cast<Sender&&>(sender)) {}
  /// Makes the sender in place.
  template <class... Arguments> explicit io_awaitable(std::in_place_t, Arguments&&... arguments);
  io_awaitable(io_awaitable&& other) : awaiting(&on_stop), Sender(static_cast<Sender&&>(other)) {}
  io_awaitable& operator=(io_awaitable&& other);
  ~io_awaitable();

  // For co_await. The promise of a coroutine that has an environment calls bind() first.
  using awaiting::bind;
  bool await_ready() noexcept;
  bool await_ready(environment const& e) noexcept;
  bool await_suspend(std::coroutine_handle<> h) noexcept { return awaiting::suspend(*this, h); }
  bool await_suspend(std::coroutine_handle<> h, environment const&) noexcept { return await_suspend(h); }
  result_type await_resume() noexcept;

 private:
  static void notify(io_operation& op, unsigned events) noexcept;
  static void on_stop(stop_node& n) noexcept;
};

// ---- how an operation notifies its receiver, or the coroutine that awaits it ------------------------------

template <class Sender, class Receiver>
inline io_operation_connection<Sender, Receiver>::io_operation_connection(Sender sender, Receiver receiver)
    : Sender(std::move(sender)), receiver_(std::move(receiver)) {
  this->set_notification(&notify);
}

template <class Sender, class Receiver>
  requires(std::derived_from<std::remove_cvref_t<Sender>, io_operation> &&
           receiver_of<std::remove_cvref_t<Receiver>, std::remove_cvref_t<Sender>>)
inline auto connect(Sender&& sender, Receiver&& receiver) {
  return io_operation_connection<std::remove_cvref_t<Sender>, std::remove_cvref_t<Receiver>>(
      std::forward<Sender>(sender), std::forward<Receiver>(receiver));
}

template <class Sender, class Receiver>
inline void io_operation_connection<Sender, Receiver>::notify(io_operation& op, unsigned events) noexcept {
  auto& self = static_cast<io_operation_connection&>(op);
  if ((events & io_operation::value) != 0) self.receiver_.set_value(self.result());
  if ((events & io_operation::done) != 0) {
    // May destroy, move or restart the connection.
    self.finish_with([&receiver = self.receiver_]() noexcept { receiver.set_done(); });
  }
}

template <class Sender>
template <class... Arguments>
inline io_awaitable<Sender>::io_awaitable(std::in_place_t, Arguments&&... arguments)
    : awaiting(&on_stop), Sender(static_cast<Arguments&&>(arguments)...) {
  this->set_notification(&notify);
}
template <class Sender> inline io_awaitable<Sender>& io_awaitable<Sender>::operator=(io_awaitable&& other) {
  static_cast<Sender&>(*this) = static_cast<Sender&&>(other);
  return *this;
}
template <class Sender> inline io_awaitable<Sender>::~io_awaitable() {
  this->abandon();
  if (this->is_awaited()) awaiting::leave(*this);
}

template <class Sender> inline bool io_awaitable<Sender>::await_ready() noexcept {
  if (awaiting::is_bound()) {
    awaiting::start(*this);
  } else {
    this->set_quiet();
    io_operation::start();
  }
  return this->is_marked_finished();
}
template <class Sender> inline bool io_awaitable<Sender>::await_ready(environment const& e) noexcept {
  awaiting::bind(e);
  awaiting::start(*this);
  return this->is_marked_finished();
}
template <class Sender>
inline typename io_awaitable<Sender>::result_type io_awaitable<Sender>::await_resume() noexcept {
  this->set_awaited(false);
  return this->result();
}

template <class Sender> inline void io_awaitable<Sender>::notify(io_operation& op, unsigned events) noexcept {
  if ((events & io_operation::done) != 0) static_cast<io_awaitable&>(op).awaiting::notify(op);
}
template <class Sender> inline void io_awaitable<Sender>::on_stop(stop_node& n) noexcept {
  awaiting::stop(static_cast<io_awaitable&>(n));
}

} // namespace unio
