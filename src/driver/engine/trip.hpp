// src/driver/engine/trip.hpp: the short functions of the engine that an operation meets on its trip, in that
// order.

#pragma once

#include "driver/engine.hpp"
#include "sys/descriptors.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace unio::inline v0_1::driver {

inline constexpr std::int64_t forever = deadline::forever;
inline constexpr unsigned all_events = io_operation::value | io_operation::done;

/// Whether that is its value and its end, so that its decoder need not be asked.
inline bool has_value(io_operation& op, int res) noexcept {
  if (res < op.faces().values_from) return false;
  op.set_outcome(res);
  return true;
}

// ---- it is started ----------------------------------------------------------------------------------------

inline bool engine_state::inherited_by_fork() const noexcept {
  return fork_generation_ != sys::fork_generation();
}

inline int engine::ensure_bound() noexcept { return open_ && !inherited_by_fork() ? 0 : bind(); }

inline descriptor_table& engine_state::descriptors() noexcept { return descriptors_; }

inline bool never_waits(io_operation const& op) noexcept {
  return op.deadline().is_zero() && op.faces().interruptible;
}

/// It is tried, and then it ends.
inline bool is_only_tried(io_operation const& op) noexcept { return never_waits(op) && !op.is_multishot(); }

inline void engine::list(io_operation& op, descriptor& d) noexcept {
  operation_links& l = op.links;
  l.previous_on_handle = nullptr;
  l.next_on_handle = d.in_flight;
  if (d.in_flight != nullptr) d.in_flight->links.previous_on_handle = &op;
  d.in_flight = &op;
}

inline void engine::take_off(io_operation& op, descriptor& d) noexcept {
  move(op, place::at_hand);
  ++in_flight_;
  list(op, d);
}

inline void engine::arm(io_operation& op, attempted how, readiness wants) noexcept {
  op.links.is.wants = wants;
  backend_->arm(*this, op, how);
}

inline void engine::arm_again(io_operation& op) noexcept { arm(op, attempted::no, op.faces().wants(op)); }

inline void engine::await_readiness(io_operation& op, readiness wants) noexcept {
  op.links.is.wants = wants;
  await_what_it_wants(op, wants);
}

inline void engine::await_readiness(io_operation& op) noexcept { await_readiness(op, op.faces().wants(op)); }

// ---- a turn -----------------------------------------------------------------------------------------------

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

inline bool engine_state::is_idle() const noexcept {
  return in_flight_ == 0 && deferred_ == 0 && !turn_.has_results() && !mail_.has_messages();
}

inline bool engine::is_done() const noexcept {
  return is_idle() && (shared_ == nullptr || shared_->pending() == landed_);
}

inline bool engine_state::has_posted() const noexcept { return (any_posted_here() | mail_.any_posts()) != 0; }

inline std::uintptr_t engine_state::any_posted_here() const noexcept {
  return any_of(posted_now_.first(), posted_here_.first());
}

inline std::uintptr_t engine_state::any_brought() const noexcept {
  return turn_.any_inline() | mail_.any_requests();
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

// ---- the thread sleeps ------------------------------------------------------------------------------------

// Looks for what workers bring, for some microseconds, where this thread would sleep otherwise.
inline bool engine::linger_for_workers() noexcept { return mail_.has_lent() && linger_now(); }

inline std::int64_t engine_state::next_due() const noexcept {
  io_operation const* const first = deadlines_.earliest();
  return first != nullptr ? first->links.due : deadline::forever;
}

inline bool engine_state::sleeps_with_others() const noexcept {
  return shared_ != nullptr && !leaves_ && known_results_ < 0;
}

inline int engine::ask_backend(std::int64_t until) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    until = std::min(reap_leaving(until), until != 0 ? next_due() : 0);
  return backend_->reap(*this, until);
}

inline bool engine::before_sleep() noexcept {
  bool const stays_awake = mail_.lie_down() || (sleeps_with_others() && shared_->before_sleep(landed_));
  if (stays_awake) after_sleep();
  return stays_awake;
}

inline bool engine_state::has_ready() const noexcept {
  if (known_results_ >= 0) [[unlikely]]
    return turn_.has_later() || turn_.results() != known_results_;
  return turn_.has_ready();
}

inline std::int64_t engine::sleeps_until(std::int64_t until) const noexcept {
  until = std::min(until, next_due());
  return sleeps_with_others() ? std::min(until, shared_->look_again()) : until;
}

inline void engine::after_sleep() noexcept {
  mail_.rise();
  if (!sleeps_with_others()) return;
  has_woken_ = true;
  shared_->after_sleep();
}

// ---- its receiver is notified -----------------------------------------------------------------------------

// For the threads that close its descriptors an operation is in flight until its receiver is about to be
// notified.
inline void engine::leave_flight(io_operation& op) noexcept {
  move(op, place::idle);
  if (op.faces().for_each_descriptor == nullptr) [[likely]]
    return sys::leave_flight(op.fd());
  op.for_each_descriptor(&sys::leave_flight);
}

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

} // namespace unio::driver
