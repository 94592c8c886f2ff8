// The harnesses. Each looks at one algorithm and returns what went wrong first, or nothing.
//
//   check_at_random       many processes and threads, random requests
//   check_kill_points     killed at each step; the next process must get everything
//   check_double_faults   and the process that recovers, killed at each of its steps
//   check_pause_points    stopped at each step: no other may take what it has or wait longer than it asked
//   check_interleavings   two processes, step by step, in all orders with few preemptions
//   check_late_joiner     the lock file is removed between opening and joining it
//   check_refusals        the kernel refuses to lock, or the disk to write

#pragma once

#include "crash/algorithms.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace crash {

struct random_options {
  std::uint64_t seed = 1;
  int processes = 4;
  int threads = 2; // of each process
  std::int64_t span_ms = 500;
  std::int64_t kill_every_ms = 0; // 0: never
  /// What the directory of temporary files is called on other machines: the processes take turns among them,
  /// and nobody is called slow.
  std::vector<std::string> elsewhere = {};
};
/// `grants`: how many requests were granted.
std::string check_at_random(algorithm const& a, random_options const& o, std::uint64_t* grants = nullptr);

/// How thorough: every n-th of the possible cases.
struct thoroughness {
  unsigned one_of = 1;
  unsigned preemptions = 2;
  unsigned most_schedules = 100'000;
  std::uint64_t seed = 0; // which of the schedules, where that is fewer than there are
};
std::string check_kill_points(algorithm const& a, thoroughness const& t, unsigned* cases = nullptr);
std::string check_double_faults(algorithm const& a, thoroughness const& t, unsigned* cases = nullptr);
std::string check_pause_points(algorithm const& a, thoroughness const& t, unsigned* cases = nullptr);
std::string check_interleavings(algorithm const& a, thoroughness const& t, unsigned* cases = nullptr);
std::string check_late_joiner(algorithm const& a);
std::string check_refusals(algorithm const& a);

} // namespace crash
