// From the result to the receiver: the queues, and whose turn it is. engine.hpp says the rule.

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
  queue_next_inline();
  ready_.push(op);
}

// The same for one that never was in flight: delivered at once, unless a receiver is running or others wait
// for their turn.
void engine::settle_inline(io_operation& op) noexcept {
  if (op.is_quiet() && quiet_ > 0) { // its coroutine is still running and will look
    --quiet_;
    ++statistics.finished;
    op.mark_finished();
    return;
  }
  move(op, place::ready);
  op.links.is.undelivered = all_events;
  if (next_inline_ == nullptr && ready_.empty()) [[likely]] {
    if (delivering_) { // a receiver started it
      next_inline_ = &op;
      return;
    }
    if (!op.is_quiet()) {
      next_inline_ = &op;
      return deliver_inline();
    }
  }
  queue_next_inline();
  ready_.push(op);
}

// The next result to deliver. Due ones come first, but no more than their share.
inline io_operation* engine::pop_ready() noexcept {
  if (next_inline_ != nullptr) {
    --round_left_;
    return std::exchange(next_inline_, nullptr);
  }
  if (due_.empty() || (due_first_ <= 0 && round_left_ > 0 && !ready_.empty())) {
    --round_left_;
    return ready_.pop();
  }
  --due_first_;
  return due_.pop();
}

[[gnu::always_inline]] inline void engine::deliver(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (l.is.where == place::ready && !op.is_atomic() && notifying_ == nullptr) [[likely]] {
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
  notification here{&op, notifying_};
  notifying_ = &here;
  op.deliver(io_operation::value);
  notifying_ = here.outer;
  // One that has another value by now, from a run() of the receiver's, is seen to after that one.
  if (here.op != nullptr && op.links.in_flight() && op.links.is.undelivered == 0) after_value(op);
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
  if (events == all_events && !op.is_atomic() && notifying_ == nullptr) [[likely]] {
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
    // Its receiver, which is being notified of a value further up, may have closed the handle.
    for (notification* t = notifying_; t != nullptr; t = t->outer)
      if (t->op == &op) t->op = nullptr;
    return op.deliver(events); // the operation may be gone now
  }
  notify_of_value(op);
}

bool engine::is_being_notified(io_operation const& op) const noexcept {
  for (notification const* t = notifying_; t != nullptr; t = t->outer)
    if (t->op == &op) return true;
  return false;
}

// While others wait for their turn, a coroutine may complete no more inline than answers what it was resumed
// with.
inline void engine::serve_one(io_operation& op) noexcept {
  --budget_;
  int const granted = alone_ && !has_results() ? budget_ : inline_beside_others;
  quiet_ = granted;
  deliver(op);
  budget_ -= granted - quiet_;
}

// Fast path for one that has the turn to itself and completes again and again inside of its receiver.
template <class May> [[gnu::always_inline]] inline void engine::serve_alone(May may_go_on) noexcept {
  while (next_inline_ != nullptr && budget_ > 0 && may_go_on()) {
    io_operation& op = *std::exchange(next_inline_, nullptr);
    quiet_ = --budget_;
    deliver(op);
    budget_ = quiet_;
  }
}

// The same for one for which a ring has brought many values. Each of them is a round.
template <class May>
[[gnu::always_inline]] inline void engine::serve_arrived(int& rounds_left, May may_go_on) noexcept {
  while (ready_.size() == 1 && next_inline_ == nullptr && due_.empty() && rounds_left > 0 && budget_ > 0 &&
         may_go_on()) {
    --rounds_left;
    serve_one(*ready_.pop());
  }
}

// From start(), outside of any receiver and with nothing else ready: delivers what completed inline, and what
// its receiver starts.
void engine::deliver_inline() noexcept {
  delivering_ = true;
  alone_ = true;
  round_left_ = 1;
  serve_alone([] { return true; });
  while (budget_ > 0 && has_results()) serve_one(*pop_ready());
  queue_next_inline();
  delivering_ = false;
}

void engine::serve_due(bound const& b) noexcept {
  if (due_.empty()) return;
  bool const outer = std::exchange(delivering_, true);
  int const outer_quiet = quiet_;
  alone_ = false;
  for (int left = due_.size(); left > 0 && !due_.empty() && b.take(); --left) serve_one(*due_.pop());
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer ? outer_quiet : turn_budget;
}

// Serves the queue in whole rounds: first all that is in it, each once, and then again what has come behind
// it, as long as all of that fits into what is left of the budget. A long round is interrupted after each 64
// completions, if `ticks`. Returns how much posted work it has run meanwhile.
int engine::serve(bound const& b, int due_first, bool ticks) noexcept {
  bool const outer = std::exchange(delivering_, true);
  int const outer_quiet = quiet_;
  int ran = 0;
  bool is_long = false;
  due_first_ = due_first;
  round_left_ = waiting();
  int left =
      turn_budget - round_left_; // of the rounds, whatever a receiver that runs this itself makes of budget_
  // Receivers may take operations out of the queue.
  auto const in_round = [this] { return (round_left_ > 0 && waiting() != 0) || !due_.empty(); };
  while (in_round()) {
    while (in_round() && (budget_ > 0 || !ticks) && b.take()) serve_one(*pop_ready());
    if (b.spent()) break;
    if (!in_round()) {
      if (alone_) {
        serve_alone([&b] { return b.take(); });
        serve_arrived(left, [&b] { return b.take(); });
      }
      int const next = waiting();
      if (next == 0 || next > std::min(left, budget_)) break;
      left -= next;
      round_left_ = next;
      continue;
    }
    // The round is long, or the time is over. Timers that are always due must not hold up the kernel.
    bool const only_due = round_left_ <= 0 || waiting() == 0;
    if (!ticks || only_due || b.is_over()) break;
    alone_ = false;
    left = 0;
    int const round = round_left_;
    is_long = true;
    backend_->submit(*this);
    ran += run_posted(b, turn_budget);
    take_messages();
    expire(bound(*this, turn_budget, forever));
    round_left_ = round;
    due_first_ = turn_budget / 2;
    budget_ = turn_budget;
  }
  if (is_long) backend_->submit(*this); // answers of its last part go out in this turn as well
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer ? outer_quiet : turn_budget;
  return ran;
}

// Takes an operation out of the queue of those that are to be delivered.
void engine::deliver_now(io_operation& op) noexcept {
  queue_next_inline();
  unqueue(op);
  bool const outer = delivering_;
  int const outer_quiet = quiet_;
  delivering_ = true;
  deliver(op);
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer_quiet;
  count_landed();
}

int engine::take_delivered() noexcept {
  values_ = std::exchange(delivered_, 0);
  return values_;
}

} // namespace unio::driver
