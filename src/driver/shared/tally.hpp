// src/driver/shared/tally.hpp: how much is pending, where each of several threads counts what it begins and
// what it ends, without a read-modify-write and on a cache line of its own. What one thread begins another
// may end: only the sum over all tallies says something.
//
//   the thread that ends the last             a thread that would sleep, or say that nothing is pending
//   ended + n (seq_cst)                       asleep, counted at the gate (seq_cst)
//   a thread sleeps (seq_cst)? all sums:      all sums: first what has ended (seq_cst), then what has begun
//   0? wake those that sleep                  0? not asleep
//
// The sum is never too small. Both counts only grow, and what has ended is read first; what has begun before
// that is seen, because who sees an end (acquire) sees all beginnings that led to it. So at 0 there was a
// moment, between the two, at which nothing was pending.
//
// No end is overlooked. The seq_cst operations have one order. The thread whose end is the last in it sees
// all others, and the sleeper if that did not see its own. A thread that has something left may count its
// ends without such an operation (release): what it has left ends later, here or on a thread that got it from
// this one, and which sees its counts. A third thread may see the last end, and not yet those: it asks for
// what has ended twice, and the first time brings what it sees the second time.
//
// tests/memory_model/tally_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::driver {

template <template <class> class Atomic = std::atomic> class tally {
 public:
  // One thread at a time.

  /// Before another thread can see what has begun.
  void begin(std::uint64_t n) noexcept {
    begun_.store(begun_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  /// While something of this thread's is left.
  void end(std::uint64_t n) noexcept {
    ended_.store(ended_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  /// What may be the last; the thread then looks for sleepers.
  void end_all(std::uint64_t n) noexcept {
    ended_.exchange(ended_.load(std::memory_order_relaxed) + n, std::memory_order_seq_cst);
  }

  // Of a tally that any thread changes.

  void begin_by_any(std::uint64_t n) noexcept { begun_.fetch_add(n, std::memory_order_relaxed); }
  void end_by_any(std::uint64_t n) noexcept { ended_.fetch_add(n, std::memory_order_seq_cst); }

  // From any thread. `for_each(f)` calls f(tally) with each. What has ended is asked for twice, of which the
  // second counts, and what has begun after that.

  template <class ForEach> [[nodiscard]] static std::uint64_t all_ended(ForEach for_each) noexcept {
    std::uint64_t sum = 0;
    for_each([&](tally const& t) { sum += t.ended_.load(std::memory_order_seq_cst); });
    return sum;
  }
  template <class ForEach> [[nodiscard]] static std::uint64_t all_begun(ForEach for_each) noexcept {
    std::uint64_t sum = 0;
    for_each([&](tally const& t) { sum += t.begun_.load(std::memory_order_relaxed); });
    return sum;
  }

 private:
  Atomic<std::uint64_t> begun_{0};
  Atomic<std::uint64_t> ended_{0};
};

} // namespace unio::driver
