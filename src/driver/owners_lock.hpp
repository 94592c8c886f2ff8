// src/driver/owners_lock.hpp: a lock that one thread, its owner, takes all the time, and others hardly ever.
//
//   the owner                                 another thread
//   inside = true                             taken = true (seq_cst)
//   light fence                               heavy fence
//   taken? inside = false, wait, once more    inside? taken = false, not now
//
// Either the owner sees that it is taken or the other thread that the owner is inside. The heavy fence is
// membarrier(2), which has each processor that runs a thread of this process execute a barrier; so the light
// one has only to keep the compiler from changing the order, and the owner makes no read-modify-write. Where
// there is no such call, the owner's first step is one, and both fences are nothing. If the call is forbidden
// while it is in use, the owner learns so when it comes next, and others wait until then.
//
// tests/memory_model/owners_lock_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include "sys/barrier.hpp"
#include "sys/give_way.hpp"

#include <atomic>

namespace unio::inline v0_1::driver {

/// Of this process.
struct process_fences {
  template <class T> using atomic = std::atomic<T>;
  static void light() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
  /// False: it may not.
  static bool heavy() noexcept { return sys::barrier_everywhere(); }
  static void wait(unsigned times) noexcept { sys::give_way(times); }
};

template <class Fences = process_fences> class owners_lock {
  template <class T> using atomic = typename Fences::template atomic<T>;

 public:
  /// Whether there are heavy fences.
  explicit owners_lock(bool has_fences) noexcept : is_fenced_(has_fences), has_exchanged_(!has_fences) {}

  // By the owner, one thread at a time.

  void lock() noexcept {
    come_in();
    while (taken_.load(std::memory_order_seq_cst)) [[unlikely]] {
      unlock();
      for (unsigned times = 0; taken_.load(std::memory_order_acquire); ++times) Fences::wait(times);
      come_in();
    }
  }
  void unlock() noexcept { inside_.store(false, std::memory_order_release); }

  // By others. What a thread has taken it gives back.

  [[nodiscard]] bool try_take() noexcept {
    if (inside_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_seq_cst))
      return false;
    if (fence() && !inside_.load(std::memory_order_seq_cst)) return true;
    give_back();
    return false;
  }
  void give_back() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void come_in() noexcept {
    if (is_fenced_.load(std::memory_order_relaxed)) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      return Fences::light();
    }
    has_exchanged_.store(true, std::memory_order_release);
    inside_.exchange(true, std::memory_order_seq_cst);
  }
  // False: nothing can be said about the owner.
  bool fence() noexcept {
    if (is_fenced_.load(std::memory_order_relaxed)) {
      if (Fences::heavy()) return true;
      is_fenced_.store(false, std::memory_order_relaxed);
    }
    return has_exchanged_.load(std::memory_order_acquire); // and does so from there on
  }

  atomic<bool> inside_{false};
  atomic<bool> taken_{false};
  atomic<bool> is_fenced_;
  atomic<bool> has_exchanged_; // the owner comes in by an exchange
};

} // namespace unio::driver
