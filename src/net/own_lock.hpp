// src/net/own_lock.hpp: a lock that a forked child finds open, whichever thread of the parent held it.

#pragma once

#include "sys/fork.hpp"
#include "sys/give_way.hpp"

#include <atomic>

namespace unio::inline v0_1::net {

/// A lock of this process.
class own_lock {
 public:
  enum class got : unsigned char {
    nothing,
    all,
    debris, ///< a thread of the parent's held it at the fork: what it protects may be half changed
  };

  [[nodiscard]] got try_lock() noexcept {
    unsigned const mine = sys::fork_generation() + 1;
    unsigned found = 0;
    if (holder_.compare_exchange_strong(found, mine, std::memory_order_acquire)) return got::all;
    if (found == mine || !holder_.compare_exchange_strong(found, mine, std::memory_order_acquire))
      return got::nothing;
    return got::debris;
  }
  got lock() noexcept {
    for (unsigned spins = 0;; ++spins) {
      if (got const g = try_lock(); g != got::nothing) return g;
      if (spins > 64) sys::give_way(spins);
    }
  }
  void unlock() noexcept { holder_.store(0, std::memory_order_release); } // pairs with try_lock()

 private:
  std::atomic<unsigned> holder_{0}; // 1 + the generation of the process that holds it
};

} // namespace unio::net
