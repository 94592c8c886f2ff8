// src/driver/engine/rooms.hpp: what the rooms of the engine share.
//
//   flights.cpp   an operation from its start to its result: tried, launched, processed, landed
//   waits.cpp     what it may wait for there that is not the backend's; cancelled, due, looked at
//   loop.cpp      a turn: what is ready is fetched, and receivers are notified (driver/turn.hpp: whose turn)
//   delivery.cpp  receivers that are notified with care
//   mailbox.cpp   what came from other threads, and what is posted, is taken and run; sleeping and waking
//   fallback.cpp  another backend takes the place of one that may not go on
//   handover.cpp  operations that come from another thread, and go to one
//   taking.cpp    what a thread has that is away, computing
//   holding.cpp   starts that go to the kernel together, outside of a turn
//   outer.cpp     another loop waits where this would sleep
//   closing.cpp   descriptors that are closed, operations that are destroyed, the end

#pragma once

#include "driver/engine.hpp"
#include "driver/shared/unclaimed.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace unio::inline v0_1::driver {

inline constexpr std::int64_t forever = deadline::forever;
inline constexpr unsigned all_events = io_operation::value | io_operation::done;

inline bool uses(io_operation const& op, int fd) noexcept {
  bool found = false;
  op.for_each_descriptor([&](int each) { found = found || each == fd; });
  return found;
}

inline io_operation* oldest_on(descriptor const& d) noexcept {
  io_operation* op = d.in_flight;
  while (op != nullptr && op->links.next_on_handle != nullptr) op = op->links.next_on_handle;
  return op;
}

/// Made of other operations: they wait, and it waits for them.
inline bool has_members(io_operation const& op) noexcept { return op.faces().member != nullptr; }

/// When it is to be looked at: its deadline, or what it waits for. Preconditions: begun.
inline std::int64_t moment_of(io_operation const& op, readiness wants) noexcept {
  operation_faces const& f = op.faces();
  bool const has_deadline = f.interruptible && !op.deadline().is_none() && !op.deadline().is_zero();
  std::int64_t const due = has_deadline ? sys::due(op.deadline()) : forever;
  return wants == readiness::time ? std::min(due, f.moment(op)) : due;
}

/// The kernel has read ahead for it: perform() does not ask the kernel.
inline bool has_arrived(io_operation const& op) noexcept {
  auto const* const r = op.faces().resource;
  return r != nullptr && r->has_arrived != nullptr && r->has_arrived(op);
}

inline bool never_waits(io_operation const& op) noexcept {
  return op.deadline().is_zero() && op.faces().interruptible;
}

/// It is tried, and then it ends.
inline bool is_only_tried(io_operation const& op) noexcept { return never_waits(op) && !op.is_multishot(); }

// For the threads that close its descriptors an operation is in flight until its receiver is about to be
// notified.
inline void engine::leave_flight(io_operation& op) noexcept {
  move(op, place::idle);
  if (op.faces().for_each_descriptor == nullptr) [[likely]]
    return sys::leave_flight(op.fd());
  op.for_each_descriptor(&sys::leave_flight);
}

/// How much one call may do: so many items, until then.
class engine::bound {
 public:
  bound(engine const& e, int max_items, std::int64_t until) noexcept
      : engine_(e),
        left_(max_items < 0 ? std::numeric_limits<int>::max() : max_items),
        is_timed_(until != forever),
        until_(until) {}
  /// True if one more may be done, which it then counts. The first may always: a bound shorter than looking
  /// takes must not keep a loop from getting anywhere.
  bool take() const noexcept {
    if (left_ <= 0 || (is_timed_ && std::exchange(taken_, true) && is_late())) return false;
    --left_;
    return true;
  }
  void spend(int n) const noexcept { left_ -= n; }
  [[nodiscard]] bool spent() const noexcept { return left_ <= 0; }
  [[nodiscard]] bool is_over() const noexcept { return spent() || (is_timed_ && is_late()); }
  [[nodiscard]] int left() const noexcept { return left_; }

 private:
  [[gnu::noinline]] bool is_late() const noexcept { return engine_.now() >= until_; }

  engine const& engine_;
  mutable int left_;
  bool is_timed_;
  mutable bool taken_ = false;
  std::int64_t until_;
};

/// Around a receiver that is notified of a value that is not the last: it may end its operation all the same,
/// by closing the handle.
class engine::notification {
 public:
  notification(engine& e, io_operation& op) noexcept
      : engine_(e),
        op_(&op),
        outer_(std::exchange(e.notifying_, this)),
        with_care_(std::exchange(e.is_watched_, true)) {}
  notification(notification const&) = delete;
  notification& operator=(notification const&) = delete;
  ~notification() {
    engine_.notifying_ = outer_;
    engine_.is_watched_ = with_care_;
  }

  [[nodiscard]] bool has_ended() const noexcept { return op_ == nullptr; }
  void end() noexcept { op_ = nullptr; }
  /// Null once it has ended.
  [[nodiscard]] io_operation* op() const noexcept { return op_; }
  [[nodiscard]] notification* outer() const noexcept { return outer_; }

 private:
  engine& engine_;
  io_operation* op_;
  notification* outer_;
  bool with_care_;
};

inline bool engine::is_notifying(io_operation const& op) const noexcept {
  for (notification const* n = notifying_; n != nullptr; n = n->outer())
    if (n->op() == &op) return true;
  return false;
}

inline int engine::ask_backend(std::int64_t until) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    until = std::min(reap_leaving(until), until != 0 ? next_due() : 0);
  return backend_->reap(*this, until);
}

inline int engine::reap(std::int64_t until) noexcept {
  int const e = ask_backend(until);
  return e >= 0 ? e : change_backend(e);
}

/// What is asked for by other threads, what workers have performed, and what was put off. Mostly there is
/// nothing of the first two, which is asked at once.
inline void engine::take_messages(bool is_plain) noexcept {
  if (any_brought() != 0 || (!is_plain && shared_ != nullptr)) take_messages_now();
  if (turn_.has_later()) perform_what_was_put_off();
}

inline void engine::expire() noexcept {
  if (deadlines_.earliest() != nullptr) expire_first_ones();
}

// An engine that has nothing in flight has nothing to ask the kernel for: it runs what was posted meanwhile
// as well, but not without bound.
inline int engine::run_posted_again(bound const& b) noexcept {
  return shared_ != nullptr || has_posted() ? run_posted_anew(b) : 0;
}

// Looks for what workers bring, for some microseconds, where this thread would sleep otherwise.
inline bool engine::linger_for_workers() noexcept { return mail_.has_lent() && linger_now(); }

inline int engine::take_delivered() noexcept {
  values_ = std::exchange(delivered_, 0);
  return values_;
}

/// Whether wake() was called, which is then answered.
inline bool engine::take_wake() noexcept {
  if (shared_ == nullptr && !mail_.is_woken()) [[likely]]
    return false;
  return take_wake_now();
}

// What has landed counts as pending for the other threads until its receivers have run, and so does posted
// work: they may start more.
inline void engine::count_landed() noexcept {
  if (landed_ == 0 || turn_.is_delivering() || turn_.has_results()) return;
  discount_landed();
}

} // namespace unio::driver
