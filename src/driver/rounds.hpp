// src/driver/rounds.hpp: how a turn serves its queue in rounds, and how results are taken out of it. What is
// alone in a turn needs neither (turn.hpp).

#pragma once

#include "driver/turn.hpp"

#include <algorithm>

namespace unio::inline v0_1::driver {

// The queue in whole rounds: first all that is in it, each once, and then again what has been
// added, as long as all of that fits into what is left of the budget. `due_first`: so many results
// that moments have brought come before those of others. A long round calls `tick()` after each 64
// completions, if `ticks`. True: it has. `deliver_lone` is `deliver`, for what comes to have the turn to
// itself.
template <class Bound, class Deliver, class DeliverLone, class Tick>
bool turn::serve_rounds(Bound const& b, int due_first, int left, bool ticks, Deliver deliver,
                        DeliverLone deliver_lone, Tick tick) noexcept {
  bool is_long = false;
  due_first_ = due_first;
  round_left_ = waiting();
  left -= round_left_; // of the rounds, whatever a receiver that runs this itself makes of budget_
  // Receivers may take operations out of the queue.
  auto const in_round = [this] { return (round_left_ > 0 && has_waiting()) || !due_.empty(); };
  while (in_round()) {
    while (in_round() && (budget_ > 0 || !ticks) && b.take()) serve_one(*pop(), deliver);
    if (b.spent()) break;
    if (!in_round()) {
      if (alone_) {
        serve_alone([&b] { return b.take(); }, deliver_lone);
        serve_arrived(left, [&b] { return b.take(); }, deliver_lone);
      }
      int const next = waiting();
      if (next == 0 || next > std::min(left, budget_)) break;
      left -= next;
      round_left_ = next;
      continue;
    }
    // The round is long, or the time is over. Timers that are always due must not hold up the kernel.
    bool const only_due = round_left_ <= 0 || !has_waiting();
    if (!ticks || only_due || b.is_over()) break;
    set_alone(false);
    left = 0;
    int const round = round_left_;
    is_long = true;
    tick();
    round_left_ = round;
    due_first_ = turn_budget / 2;
    budget_ = turn_budget;
  }
  return is_long;
}

template <class May, class F> void turn::take_results(May may, F f) noexcept {
  for (operation_queue* const queue : {&due_, &ready_})
    for (io_operation *op = queue->first(), *next; op != nullptr; op = next) {
      next = op->links.next;
      if (!may(*op)) continue;
      queue->remove(*op);
      f(*op);
    }
}

} // namespace unio::driver
