// What several.hpp begins and ends. Not inlined: many functions use it, and an engine of one thread does none
// of it.

#include "driver/engine/rooms.hpp"

#include <utility>

namespace unio::inline v0_1::driver {

// seq_cst, as the load in take_from(): a thread that has seen it kept, and sleeps, is woken if it has to
// look again (goes_away).
void engine::lock() noexcept {
  if (keeps_lock_.load(std::memory_order_relaxed)) return keeps_lock_.store(false, std::memory_order_seq_cst);
  inside_.lock();
}

// Null: not on its thread.
engine* engine::enter() noexcept {
  if (!on_own_thread() || inherited_by_fork()) return nullptr;
  if (depth_++ == 0) lock();
  return this;
}

// Before others are to look: one that sees the new number takes it to have been there until now, however long
// it has slept.
inline void engine::count_trip() noexcept {
  trips_.store(trips_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void engine::leave() noexcept {
  if (--depth_ != 0) return;
  bool const has_woken = std::exchange(has_woken_, false);
  if (has_woken) count_trip();
  shared_->leaves(has_woken || in_flight_ != 0 || deferred_ != 0);
  inside_.unlock(); // last: what is taken may end, and the multiplexer after it
}

unsigned engine::go() noexcept {
  unsigned const depth = std::exchange(depth_, 0U);
  if (depth == 0) return 0;
  count_trip();
  if (std::exchange(has_woken_, false)) shared_->goes_away();
  if (is_idle() && !turn_.has_inline()) {
    keeps_lock_.store(true, std::memory_order_relaxed);
  } else {
    inside_.unlock();
  }
  return depth;
}

void engine::come_back(unsigned depth) noexcept {
  if (keeps_lock_.load(std::memory_order_relaxed)) {
    keeps_lock_.store(false, std::memory_order_relaxed);
  } else if (!inherited_by_fork()) { // a child of fork finds it as another thread had it
    inside_.lock();
  }
  depth_ = depth;
}

// A wake() that comes before or in between is for another thread's run(), or for the next.
result<int> engine::run_in_call() noexcept {
  bool const was_woken = mail_.take_wake();
  bool woken = false;
  result<int> const r = run_turns(-1, forever, &woken);
  if (was_woken || woken) pass_wake_on();
  return r;
}

void engine::discount_landed() noexcept {
  counts_work_ = false;
  int const left = static_cast<int>(deferred_);
  int const n = std::exchange(landed_, left) - left;
  if (n == 0) return;
  if (in_flight_ != 0) return shared_->counts.end(static_cast<unsigned>(n));
  shared_->ended_all(n);
}

} // namespace unio::driver
