// How often this thread has allocated and locked. The counting itself is in counting.cpp.

#pragma once

#include <cstdint>
#include <ostream>

namespace test {

struct costs {
  std::uint64_t allocations = 0; ///< calls of operator new
  std::uint64_t locks = 0;       ///< calls of pthread_mutex_lock, as std::mutex makes them
  bool operator==(costs const&) const = default;
  costs operator-(costs const& before) const {
    return {allocations - before.allocations, locks - before.locks};
  }
};

inline void PrintTo(costs const& c, std::ostream* out) {
  *out << c.allocations << " allocations, " << c.locks << " locks";
}

/// What the calling thread has done since it began.
costs costs_so_far() noexcept;

/// Has the n-th allocation from now on of the calling thread fail, alone: with std::bad_alloc, or null where
/// nothing may throw. 0: none.
void fail_allocation(std::uint64_t n) noexcept;

} // namespace test
