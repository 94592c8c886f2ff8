// src/sys/short_lock.hpp: a lock that is held for a few instructions.

#pragma once

#include "sys/calls.hpp"

#include <atomic>

namespace unio::sys {

/// For a few instructions at a time; a thread that waits long lets the holder run.
class short_lock {
 public:
  void lock() noexcept {
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire); ++spins)
      while (held_.load(std::memory_order_relaxed))
        if (++spins > 64) sys::sched_yield();
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept {
    held_.store(false, std::memory_order_release);
  } // pairs with the acquire in lock()

 private:
  std::atomic<bool> held_{false};
};

} // namespace unio::sys
