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
  explicit inside(engine& e) noexcept : engine_(e.shared_ != nullptr ? e.enter() : nullptr) {}
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
  ~inside() {
    if (engine_ != nullptr) engine_->leave();
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
