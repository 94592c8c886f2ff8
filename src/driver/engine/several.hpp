// src/driver/engine/several.hpp: an engine of several threads: whether its own is inside, and what that
// counts for the others.
//
// Another thread may take operations from this engine while its thread is away: in receivers and posted work,
// or doing something else. `inside_` is held while the thread is in the engine, also while it sleeps there.
// What is done without it is what a receiver might do. Where there is nothing to take it stays locked, until
// the receiver or the posted work uses the engine.

#pragma once

#include "driver/engine.hpp"

#include <utility>

namespace unio::inline v0_1::driver {

/// Around what the engine's thread does with it. Others that ask something of it are not kept out: they
/// leave messages.
class engine::inside {
 public:
  explicit inside(engine& e) noexcept
      : engine_(e.shared_ != nullptr && e.on_own_thread() && !e.inherited_by_fork() ? &e : nullptr) {
    if (engine_ != nullptr && engine_->depth_++ == 0) engine_->lock();
  }
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
  ~inside() {
    if (engine_ == nullptr || --engine_->depth_ != 0) return;
    engine_->shared_->leaves(engine_->in_flight_ != 0 || std::exchange(engine_->has_woken_, false));
    engine_->inside_.unlock(); // last: what is taken may end, and the multiplexer after it
  }

 private:
  engine* engine_;
};
/// Around receivers and posted work.
class engine::outside {
 public:
  explicit outside(engine& e) noexcept : engine_(e), depth_(e.shared_ != nullptr ? e.go() : 0) {}
  outside(outside const&) = delete;
  outside& operator=(outside const&) = delete;
  ~outside() {
    if (depth_ != 0) engine_.come_back(depth_);
  }

 private:
  engine& engine_;
  unsigned depth_;
};

inline void engine::count_work() noexcept {
  if (std::exchange(counts_work_, true)) return;
  ++landed_;
  shared_->counts.begin(1);
}

inline void engine::discount_landed() noexcept {
  counts_work_ = false;
  int const n = std::exchange(landed_, 0);
  if (in_flight_ != 0) return shared_->counts.end(static_cast<unsigned>(n));
  shared_->ended_all(n);
}

inline unsigned engine::go() noexcept {
  unsigned const depth = std::exchange(depth_, 0U);
  if (depth == 0) return 0;
  if (std::exchange(has_woken_, false)) shared_->goes_away();
  trips_.store(trips_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (is_idle() && !turn_.has_inline()) {
    keeps_lock_.store(true, std::memory_order_relaxed);
  } else {
    inside_.unlock();
  }
  return depth;
}

inline void engine::come_back(unsigned depth) noexcept {
  if (keeps_lock_.load(std::memory_order_relaxed)) {
    keeps_lock_.store(false, std::memory_order_relaxed);
  } else if (!inherited_by_fork()) { // a child of fork finds it as another thread had it
    inside_.lock();
  }
  depth_ = depth;
}

// seq_cst, as the load in take_from(): a thread that has seen it kept, and sleeps, is woken if it has to
// look again (goes_away).
inline void engine::lock() noexcept {
  if (keeps_lock_.load(std::memory_order_relaxed)) return keeps_lock_.store(false, std::memory_order_seq_cst);
  inside_.lock();
}

// What has landed counts as pending for the other threads until its receivers have run, and so does posted
// work: they may start more.
inline void engine::count_landed() noexcept {
  if (landed_ == 0 || turn_.is_delivering() || turn_.has_results()) return;
  discount_landed();
}

template <class F> void engine::for_each_in_flight(F f) {
  inside const here(*this);
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation const* op = d.in_flight; op != nullptr; op = op->links.next_on_handle) f(*op);
  });
}

inline bool engine::has_to_move() noexcept {
  if (closing_ || fails_ || (is_idle() && !turn_.has_inline() && !has_posted())) return false;
  return ensure_bound() == 0;
}

} // namespace unio::driver
