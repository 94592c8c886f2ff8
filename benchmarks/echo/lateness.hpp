// What a server writes that was started with `--timer FILE` (echo/server.h): a line each time that its timer
// fired.
//
//   timer_lateness   how late it fired
#pragma once

#include "support/histogram.hpp"

#include <cstdint>
#include <iosfwd>

namespace benchmarks {

/// Of those that were due from `begin` on and before `end`, in ns of the monotonic clock. One that has not
/// fired at `end` counts as late as it is by then: a timer that is starved would look punctual otherwise.
/// Throws if there is no line, or one is not understood.
histogram timer_lateness(std::istream& lines, std::int64_t begin, std::int64_t end);

} // namespace benchmarks
