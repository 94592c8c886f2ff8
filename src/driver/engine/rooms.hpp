// src/driver/engine/rooms.hpp: what the rooms of the engine share.
//
//   state.hpp     what the engine has, and what can be asked of it
//   trip.hpp      short functions that every operation meets
//   several.cpp   what engines of several threads do besides (several.hpp)
//   flights.cpp   a plain operation from its start to its result: tried, launched, processed, landed
//   waits.cpp     one that needs more: deadlines, moments, resources, workers, many values; cancelled
//   loop.cpp      a turn: what is ready is fetched, and receivers are notified (driver/turn.hpp: whose turn)
//   delivery.cpp  receivers that are notified with care, or before their turn
//   mailbox.cpp   what came from other threads, and what is posted, is taken and run; sleeping and waking
//   fallback.cpp  another backend takes the place of one that may not go on
//   handover.cpp  operations that come from another thread, and go to one
//   taking.cpp    what a thread has that is away, computing
//   holding.cpp   starts that go to the kernel together, outside of a turn
//   outer.cpp     another loop waits where this would sleep
//   abandon.cpp   operations that are destroyed, descriptors that are closed
//   closing.cpp   operations that a blocking call waits for, the end

#pragma once

#include "driver/engine.hpp"
#include "driver/shared/unclaimed.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <algorithm>
#include <utility>

namespace unio::inline v0_1::driver {

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

/// Its value was delivered, and the kernel still has its buffers.
inline bool is_held(io_operation const& op) noexcept { return op.completed() && !op.is_multishot(); }

/// What is to be delivered is a value, and the operation goes on.
inline bool has_one_of_many(io_operation const& op) noexcept {
  operation_links::marks const& is = op.links.is;
  return is.undelivered == io_operation::value && is.where != place::landed && is.where != place::ready;
}

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

inline bool engine::be_in_call(bool on) noexcept {
  bool const outer = std::exchange(in_call_, on);
  if (shared_ != nullptr && outer != on) shared_->take_wakes(!on);
  return outer;
}

// Runs until an end is reached that has to be: until then the kernel may use the caller's memory or
// descriptor, whatever is short. Returns how many values were delivered.
template <class Reached, class Failed> int engine::reach(Reached reached, Failed failed) noexcept {
  int values = 0;
  while (!reached()) {
    values_ = 0;
    bool const ran = run_in_call().has_value();
    values += std::exchange(values_, 0);
    if (ran) continue;
    if (inherited_by_fork()) break; // the parent's operations; this process has only their memory
    failed();
    if (!reached()) sys::pause();
  }
  return values;
}
template <class Reached> void engine::reach(Reached reached) noexcept {
  (void)reach(reached, [] {});
}

inline int engine::reap(std::int64_t until) noexcept {
  int const e = ask_backend(until);
  return e >= 0 ? e : change_backend(e);
}

// An engine that has nothing in flight has nothing to ask the kernel for: it also runs what was posted
// while it ran, but not without bound.
inline int engine::run_posted_again(bound const& b) noexcept {
  return shared_ != nullptr || has_posted() ? run_posted_anew(b) : 0;
}

} // namespace unio::driver
