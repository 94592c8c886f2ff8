// src/driver/patience.hpp: looking for something for a while, before a thread sleeps.
//
// A call that is answered from a cache takes a microsecond; putting a thread to sleep and waking it takes ten
// or more, on both sides. So a thread that has lately been woken soon lingers, where another processor can do
// what it waits for. It yields all the time: if that takes long, another thread wants this processor, and it
// stops lingering for a while.

#pragma once

#include "sys/calls.hpp"
#include "sys/threads.hpp"

#include <cstdint>

namespace unio::inline v0_1::driver {

/// One thread's.
class patience {
 public:
  /// Whether what it waited for lately came soon, and there is another processor.
  [[nodiscard]] bool is_worth_it() const noexcept { return worth_ > 0 && sys::processors() > 1; }
  /// What it waits for has come after so long, lingering or not.
  void came_after(std::int64_t ns) noexcept {
    if (ns < soon_ns && worth_ < most_worth) ++worth_;
  }
  /// Looks until came() is true (then so is the result), or too long.
  template <class Came> bool linger(Came came) noexcept {
    std::int64_t const begin = now();
    for (std::int64_t before = begin;;) {
      for (int looks = 0; looks != 16; ++looks)
        if (came()) return true;
      sys::past_tests::sched_yield();
      std::int64_t const after = now();
      if (after - before > wanted_by_others_ns) {
        worth_ = -most_worth;
        return came();
      }
      before = after;
      if (after - begin > longest_ns) {
        worth_ -= cost_in_vain; // more than what comes soon after it makes good
        return false;
      }
    }
  }
  // Not through the table in use: a thread of the library lingers while a test or a simulation changes it.
  [[nodiscard]] static std::int64_t now() noexcept { return sys::past_tests::steady_now(); }

 private:
  static constexpr int most_worth = 16, cost_in_vain = 4;
  static constexpr std::int64_t soon_ns = 100'000;
  static constexpr std::int64_t longest_ns = 60'000;
  static constexpr std::int64_t wanted_by_others_ns = 20'000;
  int worth_ = 0;
};

} // namespace unio::driver
