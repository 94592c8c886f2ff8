// Which processor whom: the runner's `--pin` decides, and tells its programs by the environment.
//
//   move_helper_away   for a helper (a writer, a client, a load generator): onto the helpers' processor
#pragma once

namespace benchmarks {

/// The names of the variables, for who starts programs. Their values are numbers of processors.
inline constexpr char const* subject_cpu_variable = "UNIO_BENCH_CPU";
inline constexpr char const* helper_cpu_variable = "UNIO_BENCH_HELPER_CPU";

/// Moves the calling thread to a processor. False: there is no such.
bool move_to_cpu(int cpu);

/// Call it first thing in a helper process or thread. Without --pin: the system decides.
void move_helper_away();

} // namespace benchmarks
