// src/driver/foreign/interruptions.hpp: how the thread that runs a foreign_reactor learns of an interruption.
//
//   another thread                       the thread that runs it
//     what it interrupts for               looks for something to do
//     count + 1 (seq_cst)                  runner = asleep (seq_cst)
//     runner is asleep? (seq_cst) wakes    count (seq_cst) is what was seen? waits
//                                          seen = count (acquire), and looks again
//
// None is lost: of the two seq_cst pairs one sees the other. Where that is the second, or the count was seen
// at the end of a run(), the look that follows finds what the interruption was for: each increment passes on
// what came before it, and before those that it follows. A flag that is set and cleared would not: clearing
// one interruption takes back the next.
//
// tests/memory_model/interruptions_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::driver {

template <template <class> class Atomic = std::atomic> class interruptions {
 public:
  /// By any thread, which then looks whether the one that runs it is asleep.
  void add() noexcept { count_.fetch_add(1, std::memory_order_seq_cst); }

  // By the thread that runs it.

  /// Whether it must not wait. It has said before that it may be asleep.
  [[nodiscard]] bool any() noexcept { return count_.load(std::memory_order_seq_cst) != seen_; }
  /// At the end of a run(), after which the loop looks for something to do.
  void see_all() noexcept { seen_ = count_.load(std::memory_order_acquire); }

 private:
  Atomic<std::uint32_t> count_{0};
  std::uint32_t seen_ = 0;
};

} // namespace unio::driver
