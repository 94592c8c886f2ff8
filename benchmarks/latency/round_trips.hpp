// The frame of every subject's run: its messages, its clock, its histogram, its peer.
#pragma once

#include "latency/echo.hpp"
#include "latency/rounds.h"
#include "support/measure.hpp"

#include <functional>
#include <string>
#include <vector>

namespace latency {

/// What the rows are about.
struct conversation {
  transport over = transport::pipes;
  std::size_t bytes = 1;
};

/// Has `talk(rounds&)` exchange the messages, and checks the echoes. The value is the median round trip in
/// microseconds. Each trip is from the end of the one before to the arrival of its echo: nothing that a
/// subject does is left out.
benchmarks::sample measure_trips(std::uint64_t operations, conversation const& c,
                                 std::function<void(rounds&)> const& talk);

/// One case for each transport and size.
std::vector<benchmarks::benchmark_case> cases_of(
    std::string const& subject,
    std::function<benchmarks::sample(std::uint64_t operations, conversation const&)> const& run);

} // namespace latency
