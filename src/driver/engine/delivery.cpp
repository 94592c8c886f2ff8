// From the result to the receiver. Whose turn it is, turn.hpp says.

#include "driver/engine/rooms.hpp"

#include <algorithm>

namespace unio::inline v0_1::driver {

void engine::tried_bytes(io_operation& op, int res, void* engine_that_tried) noexcept {
  auto& self = *static_cast<engine*>(engine_that_tried);
  if (res <= 0) [[unlikely]]
    return self.tried(op, res);
  ++self.statistics.inline_hits;
  op.set_outcome(res);
  self.settle_inline(op);
}

// Ends an operation that was never in flight.
void engine::fail(io_operation& op, int code) noexcept {
  op.set_outcome(code);
  settle_inline(op);
}

// The result of an operation in flight is known, or its end: queues it to be delivered, from a loop.
void engine::settle(io_operation& op, unsigned events) noexcept {
  operation_links& l = op.links;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered | events);
  if ((events & io_operation::done) != 0) land(op);
  if (l.is.queue != static_cast<std::uint8_t>(queue_name::none)) return;
  turn_.push(op);
}

// The same for one that never was in flight: delivered at once, unless a receiver is running or others wait
// for their turn.
void engine::settle_inline(io_operation& op) noexcept {
  if (op.is_quiet() && turn_.take_quiet()) { // its coroutine is still running and will look
    ++statistics.finished;
    op.mark_finished();
    return;
  }
  move(op, place::ready);
  op.links.is.undelivered = all_events;
  if (turn_.offer(op)) deliver_inline();
}

[[gnu::always_inline]] inline void engine::deliver(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (l.is.where == place::ready && !op.is_atomic() && !turn_.is_notifying()) [[likely]] {
    l.is.undelivered = 0;
    move(op, place::idle);
    ++delivered_;
    ++statistics.finished;
    return op.deliver(all_events);
  }
  deliver_with_care(op);
}

// Of one that goes on.
inline void engine::deliver_value(io_operation& op) noexcept {
  op.links.is.undelivered = 0;
  ++delivered_;
  notify_of_value(op);
}

inline void engine::notify_of_value(io_operation& op) noexcept {
  bool has_ended = false;
  {
    turn::notification const here(turn_, op);
    op.deliver(io_operation::value);
    has_ended = here.has_ended();
  }
  // One that has another value by now, from a run() of the receiver's, is seen to after that one.
  if (!has_ended && op.links.in_flight() && op.links.is.undelivered == 0) after_value(op);
}

// One that was in flight, that other threads may touch, that has ended in part only, or one that ends while
// such a receiver is notified.
void engine::deliver_with_care(io_operation& op) noexcept {
  operation_links& l = op.links;
  unsigned events = l.is.undelivered;
  if (events == io_operation::value && l.is.where != place::landed && l.is.where != place::ready)
    return deliver_value(op);
  if (l.is.where == place::landed) leave_flight(op);
  if (l.is.where == place::ready) move(op, place::idle);
  if (events == all_events && !op.is_atomic() && !turn_.is_notifying()) [[likely]] {
    l.is.undelivered = 0;
    ++delivered_;
    ++statistics.finished;
    return op.deliver(all_events);
  }
  // Another thread's request for an atomic form is on its way: the end waits for it (take_messages).
  if ((events & io_operation::done) != 0 && !op.close_to_requests()) events &= ~io_operation::done;
  if (events != l.is.undelivered) ++deferred_;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered & ~events);
  if (events == 0) return;
  if ((events & io_operation::value) != 0) ++delivered_;
  bool const ends = (events & io_operation::done) != 0;
  if (ends) ++statistics.finished;
  if (ends) notified_end_ = true;
  if (ends) {
    turn_.has_ended(op);
    return op.deliver(events); // the operation may be gone now
  }
  notify_of_value(op);
}

// From start(), outside of any receiver and with nothing else ready.
void engine::deliver_inline() noexcept {
  turn_.deliver_inline([this](io_operation& op) { deliver(op); });
}

void engine::serve_due(bound const& b) noexcept {
  turn_.serve_due(b, [this](io_operation& op) { deliver(op); });
}

// Returns how much posted work it has run meanwhile.
int engine::serve(bound const& b, int due_first, bool ticks) noexcept {
  int ran = 0;
  bool const was_long = turn_.serve(
      b, due_first, ticks, [this](io_operation& op) { deliver(op); },
      [&] {
        backend_->submit(*this);
        ran += run_posted(b, turn_budget);
        take_messages();
        expire(bound(*this, turn_budget, forever));
      });
  if (was_long) backend_->submit(*this); // answers of its last part go out in this turn as well
  return ran;
}

// Takes an operation out of the queue of those that are to be delivered.
void engine::deliver_now(io_operation& op) noexcept {
  turn_.queue_next_inline();
  turn_.remove(op);
  turn_.aside([&] { deliver(op); });
  count_landed();
}

int engine::take_delivered() noexcept {
  values_ = std::exchange(delivered_, 0);
  return values_;
}

} // namespace unio::driver
