// fairness: what a row of that table says.
#pragma once

#include "support/subject.hpp"

namespace benchmarks {

/// From what echo_load says of a server with a timer and a slow connection: the value is p99.9 in µs. Throws
/// if a figure is missing.
sample fairness_of(sample const& loaded);

} // namespace benchmarks
