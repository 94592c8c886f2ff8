// What a subject uses: a clock around its loop, and a count of what it allocates meanwhile.
//
//   sample   what one run of a subject cost
//   measure  runs a function and says what it cost
#pragma once

#include <chrono>
#include <cstdint>

namespace benchmarks {

/// What a number of operations cost altogether.
struct sample {
  double ns = 0;
  std::uint64_t allocations = 0; // 0 unless they are being counted
};

/// Calls of operator new in this program, by any thread, while they were being counted. Counting takes an
/// atomic addition, which would be charged to the subjects that allocate: so it is on in a run of its own,
/// never in a timed one.
void count_allocations(bool on);
bool counting();
std::uint64_t allocations();

/// Runs `f`, which does all the operations of one run. What a subject prepares stays outside.
template <class F> sample measure(F&& f) {
  const std::uint64_t allocations_before = allocations();
  const auto start = std::chrono::steady_clock::now();
  f();
  const auto end = std::chrono::steady_clock::now();
  return {std::chrono::duration<double, std::nano>(end - start).count(), allocations() - allocations_before};
}

} // namespace benchmarks
