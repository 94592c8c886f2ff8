// Subjects that are programs of their own: of another compiler, or of a library that cannot be linked beside
// ours.
//
// Such a program, started with `--serve`, speaks lines on standard output and input; fields are separated by
// tabs:
//
//   it says    case <subject> <name>=<value> ...     once per case; they are numbered from 0
//              missing <reason> <subject> <name>=<value> ...
//              end
//   it is told run <case> <operations> <1: count allocations, 0: do not>
//   it says    <nanoseconds> <allocations>
//
// It ends when its input does. While another program's case runs it waits in read(2), so it costs nothing.
#pragma once

#include "support/benchmark.hpp"

#include <string>
#include <vector>

namespace benchmarks {

/// Starts `program --serve`, which lives as long as one of the cases returned. Throws if it cannot be
/// understood.
std::vector<benchmark_case> cases_of(std::string const& program);

/// The other side: returns the exit status.
int serve(std::vector<benchmark_case> const& cases);

} // namespace benchmarks
