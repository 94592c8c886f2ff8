// src/testing/threads/record.hpp: what a run of simulated threads tells.

#pragma once

#include <unio/testing_threads.hpp>

#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::testing::threads {

enum class at : std::uint16_t;

/// What a run tells its parent, in memory that they share.
struct run_record {
  struct turn {
    std::uint64_t step;
    std::int64_t now;
    std::int16_t from;
    std::int16_t to;
    at where;
  };
  static constexpr std::size_t kept = 48;
  run_end end;
  std::uint64_t steps;
  std::uint64_t switches;
  std::uint64_t fingerprint;
  std::int64_t now;
  turn last[kept];
  char why[4096];
};

constexpr char const* ends[] = {"returned", "failed",    "deadlock", "hang",
                                "livelock", "exception", "ended",    "stuck"};

} // namespace unio::testing::threads
