// src/sys/short_lock.hpp: a lock that is held for a few instructions.

#pragma once

#include "sys/give_way.hpp"

#include <atomic>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace unio::inline v0_1::sys {

/// False where there is another thread, or it is not known (The GNU C Library Manual, Single-Threaded).
inline bool is_only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// For a few instructions at a time; a thread that waits long lets the holder run. While there is but one
/// thread no other can hold it, and the exchange, a third of what lending a buffer costs, is left out: a
/// thread that the holder starts finds it held.
class short_lock {
 public:
  void lock() noexcept {
    if (is_only_thread()) return held_.store(true, std::memory_order_relaxed);
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept {
    held_.store(false, std::memory_order_release);
  } // pairs with the acquire in lock()

 private:
  // Not inlined: lock() calls nothing then that needs its caller's registers saved.
  [[gnu::cold, gnu::noinline]] void wait() noexcept {
    for (unsigned spins = 1; held_.exchange(true, std::memory_order_acquire); ++spins)
      while (held_.load(std::memory_order_relaxed))
        if (++spins > 64) sys::give_way(spins);
  }

  std::atomic<bool> held_{false};
};

} // namespace unio::sys
