// An operation that was started with a handler: what a stop and other threads add.
//
// If this thread runs the multiplexer, the operation is started first and can be stopped after that, because
// it ends only inside start() or in a later turn, and another thread may take it over only after that. If
// another thread runs it, the operation may end, and be destroyed, as soon as it has started; so the stop
// callback is attached first, and waits for the start.

#include "driver/this_thread.hpp"
#include "sys/give_way.hpp"

#include <unio/callback.hpp>

namespace unio::inline v0_1::detail {

void calling_back::start(io_operation& op, io_multiplexer* given, refused_function refused) noexcept {
  io_multiplexer& m = choose(op.own_multiplexer_, given);
  bool const elsewhere = is_run_elsewhere(m);
  if (!elsewhere && !stop_.stop_possible() && (&m == shortcut.get() || !m.is_shared())) [[likely]]
    return op.start_on(m);
  op.set_atomic(next_message_);
  if (!(elsewhere ? start_elsewhere(op, m) : start_here(op, m))) refused(*this, m);
}

bool calling_back::start_elsewhere(io_operation& op, io_multiplexer& m) noexcept {
  attached_ = stop_.stop_possible();
  if (attached_ && !attach(stop_)) return op.refuse(-ECANCELED), false;
  op.start_on(m); // this object may be destroyed by now
  return true;
}

bool calling_back::start_here(io_operation& op, io_multiplexer& m) noexcept {
  if (stop_.stop_requested()) return op.refuse(-ECANCELED), false;
  bool finished_inside = false;
  finished_inside_ = &finished_inside;
  op.start_on(m);
  if (finished_inside) return true; // this object is destroyed
  finished_inside_ = nullptr;
  attached_ = stop_.stop_possible();
  if (attached_ && !attach(stop_)) op.cancel();
  op.let_be_taken(); // this object may be destroyed from here on
  return true;
}

void calling_back::finished(io_operation& op) noexcept {
  if (finished_inside_ != nullptr) *finished_inside_ = true;
  if (attached_) detach(stop_);
  op.mark_finished();
}

void calling_back::stop(io_operation& op) noexcept {
  sys::await_other([&] { return op.started(); }); // start() is starting it on another thread
  op.cancel();
}

} // namespace unio::detail
