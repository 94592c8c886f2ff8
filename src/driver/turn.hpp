// src/driver/turn.hpp: what waits for its receiver, and whose turn it is.
//
// Fairness. Everything that is ready stands in one queue, first come, first served; what completes inline
// while others wait goes to its end. A turn fetches all that the kernel has and serves all that is then in
// the queue, each once. A short queue is served again, in whole rounds, until 64 operations have completed.
// So everything that is ready is served once before anything is served twice. After each 64, timers and
// posted work have their turn. To be served is: a receiver is called, or a coroutine is resumed, which may
// complete one more operation on the spot (the answer to the request that it has read). Only what has the
// turn to itself may complete 64.

#pragma once

#include "driver/queues.hpp"

#include <algorithm>
#include <utility>

namespace unio::inline v0_1::driver {

/// How many operations complete before timers and posted work have their turn, and before the kernel is asked
/// again if that is not later.
inline constexpr int turn_budget = 64;
/// How many a coroutine that was resumed may complete inline, without being suspended, while others wait for
/// their turn.
inline constexpr int inline_beside_others = 1;

class turn {
 public:
  // What waits.

  /// Results wait for their receivers to be notified.
  [[nodiscard]] bool has_results() const noexcept { return any_of(ready_.first(), due_.first()) != 0; }
  [[nodiscard]] int results() const noexcept { return waiting() + due_.size(); }
  /// One has completed inline, and a loop further up delivers it next.
  [[nodiscard]] bool has_inline() const noexcept { return next_inline_ != nullptr; }
  [[nodiscard]] std::uintptr_t any_inline() const noexcept { return any_of(next_inline_); }
  /// Or something is to be performed in the next turn.
  [[nodiscard]] bool has_ready() const noexcept {
    return any_of(ready_.first(), due_.first(), later_.first()) != 0;
  }
  [[nodiscard]] bool has_later() const noexcept { return !later_.empty(); }
  [[nodiscard]] bool has_result_of(io_operation const& op) const noexcept {
    return due_.contains(op) || ready_.contains(op);
  }
  /// The first of which `is_wanted(op)`, or null.
  template <class IsWanted> [[nodiscard]] io_operation* find_result(IsWanted is_wanted) const noexcept {
    for (operation_queue const* const queue : {&due_, &ready_})
      for (io_operation* op = queue->first(); op != nullptr; op = op->links.next)
        if (is_wanted(*op)) return op;
    return nullptr;
  }
  /// Of an operation in flight.
  void push(io_operation& op) noexcept {
    queue_next_inline();
    ready_.push_as<queue_name::ready>(op);
  }
  void remove(io_operation& op) noexcept { (due_.contains(op) ? due_ : ready_).remove(op); }
  /// Takes out each of which `may(op)`, in the order in which they would be served, and calls `f(op)`
  /// (rounds.hpp).
  template <class May, class F> void take_results(May may, F f) noexcept;
  /// A moment has brought the result, if there is one: it is served before others.
  void hasten(io_operation& op) noexcept {
    if (!ready_.contains(op)) return;
    ready_.remove(op);
    due_.push(op);
  }
  /// Out of turn: the first, or null.
  [[nodiscard]] io_operation* take_result() noexcept {
    queue_next_inline();
    return due_.empty() ? ready_.pop() : due_.pop();
  }
  /// Call before looking at results outside of the loops that serve them.
  void queue_next_inline() noexcept {
    if (next_inline_ != nullptr) [[unlikely]]
      ready_.push(*std::exchange(next_inline_, nullptr));
  }

  void push_later(io_operation& op) noexcept { later_.push_as<queue_name::later>(op); }
  void remove_later(io_operation& op) noexcept { later_.remove(op); }
  /// Calls `perform` with each that was put off; what is put off during this is for the next turn.
  template <class Perform> void perform_later_ones(Perform perform) noexcept {
    for (io_operation* const last = later_.last(); !later_.empty();) {
      io_operation& op = later_.pop_first();
      bool const was_last = &op == last;
      perform(op);
      if (was_last) break;
    }
  }

  // What completes inline.

  /// Nothing was ready when this turn began, nor has become so.
  [[nodiscard]] bool is_free() const noexcept { return alone_ && ready_.empty(); }
  /// A receiver is running: what completes inline is queued.
  [[nodiscard]] bool is_delivering() const noexcept { return delivering_; }
  /// A receiver is running, and others were ready when its turn began.
  [[nodiscard]] bool has_company() const noexcept { return delivering_ && !was_alone_; }
  /// The thread has more to start: what it starts goes with others, as if they were ready.
  void hold() noexcept {
    ++holds_;
    alone_ = false;
  }
  /// True: nothing holds them any more, and no turn is under way, which would go on with them.
  [[nodiscard]] bool release() noexcept {
    if (holds_ == 0 || --holds_ != 0) return false;
    alone_ = was_alone_;
    return !delivering_;
  }
  void forget_holds() noexcept { holds_ = 0; }
  [[nodiscard]] bool holds_starts() const noexcept { return holds_ != 0; }
  /// The coroutine that runs may complete one without being suspended, which is counted.
  [[nodiscard]] bool take_quiet() noexcept {
    if (quiet_ <= 0) return false;
    --quiet_;
    return true;
  }
  /// One has completed inline. True: deliver it now (deliver_inline).
  [[nodiscard]] bool offer(io_operation& op) noexcept {
    if (next_inline_ == nullptr && ready_.empty()) [[likely]] {
      if (delivering_) { // a receiver started it
        next_inline_ = &op;
        return false;
      }
      if (!op.is_quiet()) {
        next_inline_ = &op;
        return true;
      }
    }
    push(op);
    return false;
  }

  // The rule. `deliver(op)` notifies a receiver; `b` bounds how many of them.

  /// A call from outside, not from a receiver.
  void renew() noexcept {
    if (!delivering_) begin();
  }
  void begin() noexcept {
    budget_ = turn_budget;
    if (!delivering_) quiet_ = turn_budget;
  }
  /// Counts the turns that may not serve all: who begins.
  [[nodiscard]] unsigned rotate() noexcept { return rotation_++; }
  /// All is fetched that the kernel has.
  void fetched() noexcept { set_alone(results() <= 1); }
  /// Posted work begins: what a coroutine that it resumes may complete inline.
  void begin_work(bool is_alone) noexcept { quiet_ = is_alone ? budget_ : inline_beside_others; }

  /// Around what calls receivers or posted work.
  class delivering {
   public:
    explicit delivering(turn& t, bool may_be_within_another = true) noexcept
        : turn_(t), outer_(may_be_within_another && t.delivering_), outer_quiet_(t.quiet_) {
      t.delivering_ = true;
    }
    delivering(delivering const&) = delete;
    delivering& operator=(delivering const&) = delete;
    ~delivering() {
      turn_.queue_next_inline();
      turn_.delivering_ = outer_;
      turn_.quiet_ = outer_ ? outer_quiet_ : turn_budget;
    }

   private:
    turn& turn_;
    bool outer_;
    int outer_quiet_;
  };
  /// Out of turn, and counted nowhere.
  template <class F> void aside(F f) noexcept {
    queue_next_inline();
    bool const outer = std::exchange(delivering_, true);
    int const outer_quiet = quiet_;
    f();
    queue_next_inline();
    delivering_ = outer;
    quiet_ = outer_quiet;
  }

  /// From start(), outside of any receiver and with nothing else ready: what completed inline, and what its
  /// receiver starts, which `deliver_next` delivers where it is not alone.
  template <class Deliver, class DeliverNext>
  void deliver_inline(Deliver deliver, DeliverNext deliver_next) noexcept {
    delivering_ = true;
    set_alone(true);
    round_left_ = 1;
    serve_alone([] { return true; }, deliver);
    while (budget_ > 0 && has_results()) serve_one(*pop(), deliver_next);
    queue_next_inline();
    delivering_ = false;
  }

  template <class Bound, class Deliver> void serve_due(Bound const& b, Deliver deliver) noexcept {
    if (due_.empty()) return;
    delivering const scope(*this);
    set_alone(false);
    for (int left = due_.size(); left > 0 && !due_.empty() && b.take(); --left)
      serve_one(*due_.pop(), deliver);
  }

  // How a turn serves, inside of `delivering`.

  /// First what has the turn to itself. Returns how many rounds are left for serve_rounds(); < 0: there is
  /// nothing more to serve, or no turn left for it.
  template <class Bound, class Deliver>
  [[gnu::always_inline]] int serve_lone(Bound const& b, bool ticks, Deliver deliver) noexcept {
    int left = turn_budget;
    if (!alone_) return left;
    serve_alone([&b] { return b.take(); }, deliver);
    serve_arrived(left, [&b] { return b.take(); }, deliver);
    if (!has_waiting() && due_.empty()) [[likely]]
      return -1;
    return ticks && waiting() > std::min(left, budget_) ? -1 : left;
  }
  /// Then the queue (rounds.hpp). True: a round was long.
  template <class Bound, class Deliver, class DeliverLone, class Tick>
  bool serve_rounds(Bound const& b, int due_first, int left, bool ticks, Deliver deliver,
                    DeliverLone deliver_lone, Tick tick) noexcept;

 private:
  /// Results in the queue, but for those that are due.
  [[nodiscard]] int waiting() const noexcept { return ready_.size() + (next_inline_ != nullptr ? 1 : 0); }
  [[nodiscard]] bool has_waiting() const noexcept { return any_of(ready_.first(), next_inline_) != 0; }

  void set_alone(bool on) noexcept {
    was_alone_ = on;
    alone_ = static_cast<bool>(on & (holds_ == 0)); // no branch
  }

  // The next result to deliver. Due ones come first, but no more than their share.
  io_operation* pop() noexcept {
    if (any_of(next_inline_, due_.first()) != 0) [[unlikely]]
      return pop_with_care();
    --round_left_;
    return &ready_.pop_first();
  }
  [[gnu::noinline]] io_operation* pop_with_care() noexcept {
    if (next_inline_ != nullptr) {
      --round_left_;
      return std::exchange(next_inline_, nullptr);
    }
    if (due_first_ <= 0 && round_left_ > 0 && !ready_.empty()) {
      --round_left_;
      return &ready_.pop_first();
    }
    --due_first_;
    return &due_.pop_first();
  }

  // While others wait for their turn, a coroutine may complete no more inline than answers what it was
  // resumed with.
  template <class Deliver> void serve_one(io_operation& op, Deliver deliver) noexcept {
    --budget_;
    int const granted = alone_ && !has_results() ? budget_ : inline_beside_others;
    quiet_ = granted;
    deliver(op);
    budget_ -= granted - quiet_;
  }

  // Fast path for one that has the turn to itself and completes again and again inside of its receiver.
  template <class May, class Deliver>
  [[gnu::always_inline]] void serve_alone(May may_go_on, Deliver deliver) noexcept {
    while (next_inline_ != nullptr && budget_ > 0 && may_go_on()) {
      io_operation& op = *std::exchange(next_inline_, nullptr);
      quiet_ = --budget_;
      deliver(op);
      budget_ = quiet_;
    }
  }

  // The same for one for which a ring has brought many values. Each of them is a round.
  template <class May, class Deliver>
  [[gnu::always_inline]] void serve_arrived(int& rounds_left, May may_go_on, Deliver deliver) noexcept {
    while (ready_.size() == 1 && next_inline_ == nullptr && due_.empty() && rounds_left > 0 && budget_ > 0 &&
           may_go_on()) {
      --rounds_left;
      serve_one(ready_.pop_first(), deliver);
    }
  }

  operation_queue ready_{queue_name::ready}; // results, in the order in which they came
  // Instead of ready_, where only one is ready and a loop delivers it next.
  io_operation* next_inline_ = nullptr;
  operation_queue due_{queue_name::due};     // results that a moment has brought: served before ready_
  operation_queue later_{queue_name::later}; // to be performed in the next turn
  int round_left_ = 0;       // results in ready_ that were there when this turn had fetched all
  int budget_ = turn_budget; // completions that are left until timers and posted work have their turn
  int quiet_ = turn_budget;  // of these, what the coroutine that runs may complete without being suspended
  int due_first_ = 0;        // results of due_ that are served before those of ready_
  unsigned rotation_ = 0;
  unsigned holds_ = 0;      // that have begun and not ended
  bool alone_ = true;       // nothing else was ready when this turn began, and nothing is held
  bool was_alone_ = true;   // the same without what is held
  bool delivering_ = false; // a receiver is running
};

} // namespace unio::driver

#include "driver/rounds.hpp"
