// Receivers that are notified with care, of what other threads may touch and of a value that is not the last;
// and one that is notified before its turn.

#include "driver/engine/rooms.hpp"
#include "driver/recording.hpp"

namespace unio::inline v0_1::driver {

// For the other threads it stays pending until it is notified.
void engine::put_off_end(bool was_counted) noexcept {
  ++deferred_;
  if (shared_ == nullptr || was_counted) return;
  ++landed_;
  shared_->counts.begin(1);
}

// Of one that other threads may ask something, the end. What is rarer is for deliver_with_care().
void engine::deliver_atomic(io_operation& op) noexcept {
  if (has_one_of_many(op)) return deliver_value(op);
  operation_links& l = op.links;
  bool const is_end = l.is.undelivered == all_events && !is_watched_;
  if (!is_end || l.is.where != place::landed) return deliver_with_care(op);
  leave_flight(op);
  if (!op.close_to_requests(all_events)) return deliver_with_care(op);
  l.is.undelivered = 0;
  ++delivered_;
  ++statistics.finished;
  op.deliver(all_events);
}

// Of one that goes on.
void engine::deliver_value(io_operation& op) noexcept {
  op.links.is.undelivered = 0;
  ++delivered_;
  note_delivery(op);
  if (is_recording()) [[unlikely]]
    record(recorded::delivered, op);
  notify_of_value(op);
}

void engine::notify_of_value(io_operation& op) noexcept {
  bool has_ended = false;
  {
    notification const here(*this, op);
    outside const away(*this);
    op.deliver(io_operation::value);
    has_ended = here.has_ended();
  }
  // One that has another value by now, from a run() of the receiver's, is seen to after that one.
  if (!has_ended && op.links.in_flight() && op.links.is.undelivered == 0) after_value(op);
}

// One that other threads may touch, that has ended in part only, or one that ends while a receiver of such a
// part is notified.
void engine::deliver_with_care(io_operation& op) noexcept {
  if (has_one_of_many(op)) return deliver_value(op);
  operation_links& l = op.links;
  unsigned events = l.is.undelivered;
  bool const was_counted = l.is.where == place::landed;
  if (was_counted) leave_flight(op);
  if (l.is.where == place::ready) move(op, place::idle);
  // Another thread's request for an atomic form is on its way: the end waits for it (take_messages).
  if ((events & io_operation::done) != 0 && !op.close_to_requests(events)) events &= ~io_operation::done;
  if (events != l.is.undelivered) put_off_end(was_counted);
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered & ~events);
  if (events == 0) return;
  if (is_recording()) [[unlikely]]
    record(recorded::delivered, op);
  if ((events & io_operation::value) != 0) ++delivered_;
  bool const ends = (events & io_operation::done) != 0;
  if (ends) ++statistics.finished;
  if (ends) notified_end_ = true;
  if (ends) {
    for (notification* n = notifying_; n != nullptr; n = n->outer())
      if (n->op() == &op) n->end();
    outside const away(*this);
    return op.deliver(events); // the operation may be gone now
  }
  notify_of_value(op);
}

// Takes an operation out of the queue of those that are to be delivered.
void engine::deliver_now(io_operation& op) noexcept {
  turn_.queue_next_inline();
  turn_.remove(op);
  turn_.aside([&] { deliver_apart(op); });
  count_landed();
}

} // namespace unio::driver
