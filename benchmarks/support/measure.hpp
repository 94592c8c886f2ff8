// What a subject uses: a clock around its loop, and counts of what happens meanwhile.
//
//   processor_ns             the processor time so far
//   measure                  runs a function and says what it cost per operation
//   measure_with_processor   the same, with the processor time beside
//   count_now                what the runs to come count
#pragma once

#include "support/subject.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>

namespace benchmarks {

/// Calls of operator new in this program, by any thread, while they were being counted. Counting takes an
/// atomic addition, which would be charged to the subjects that allocate: so it is on in a run of its own,
/// never in a timed one.
std::uint64_t allocations();

void count_now(counting what);

/// The processor time of all threads of this process, in ns.
inline double processor_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

namespace detail {
void begin_measuring(); // marks the place for whoever counts system calls
void end_measuring();
std::optional<figure> counted(std::uint64_t operations, std::uint64_t allocations_before);
} // namespace detail

/// Runs `f`, which does all the operations of one run. What a subject prepares stays outside. The value is
/// nanoseconds per operation.
template <class F> sample measure(std::uint64_t operations, F&& f) {
  const std::uint64_t allocations_before = allocations();
  detail::begin_measuring();
  const auto start = std::chrono::steady_clock::now();
  f();
  const auto end = std::chrono::steady_clock::now();
  detail::end_measuring();
  const double ns = std::chrono::duration<double, std::nano>(end - start).count();
  sample s{.elapsed_ns = ns, .value = ns / static_cast<double>(operations)};
  if (const auto count = detail::counted(operations, allocations_before)) s.extra.push_back(*count);
  return s;
}

/// measure(), with the processor time of all threads beside it ("CPU ns"): where something is waited for, or
/// several threads work, the clock alone says little.
template <class F> sample measure_with_processor(std::uint64_t operations, F&& f) {
  const double before = processor_ns();
  sample s = measure(operations, f);
  s.extra.push_back({"CPU ns", (processor_ns() - before) / static_cast<double>(operations)});
  return s;
}

} // namespace benchmarks
