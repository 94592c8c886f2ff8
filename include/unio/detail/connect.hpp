// unio/detail/connect.hpp: how an operation notifies its receiver, or the coroutine that awaits it.

#pragma once

#include <unio/connect.hpp>

namespace unio::inline v0_1 {

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
