// What is measured: a case is one subject under one set of parameters; a program has some, and serves them.
//
//   parameter       what distinguishes the rows of one subject: a name and a value
//   figure          something measured beside the value: a name with its unit, and a number
//   sample          what one run of a case gave
//   benchmark_case  one subject under one set of parameters
//   subject_main    the main program of whatever has cases: lists them, runs one, or serves them to the
//                   runner
//
// Such a program, started with `--serve`, speaks lines on standard output and input; fields are separated by
// tabs:
//
//   it says    case <operations, 0: to be found> <subject> <name>=<value> ...      once per case, from 0 on
//              missing <reason> <subject> <name>=<value> ...
//              end
//   it is told run <case> <operations> <nothing | allocations | system_calls>
//   it says    sample <elapsed ns> <value> <name>=<value> ...                       and then, perhaps,
//              histogram <upper bound>:<count> ...                                  in the same line
//              failed <reason>
//
// It ends when its input does. While another program's case runs it waits in read(2), so it costs nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace benchmarks {

/// In JSON a value that reads as a whole number is a number.
struct parameter {
  std::string name;
  std::string value;

  friend bool operator==(parameter const&, parameter const&) = default;
};

struct figure {
  std::string name; // with its unit: "p99 µs"
  double value = 0;
};

struct bucket {
  double upper = 0; // the largest value counted here, in the table's unit
  std::uint64_t count = 0;
};

struct sample {
  double elapsed_ns = 0;              // of the measured part: how many operations a run has follows from it
  double value = 0;                   // in the unit of the table
  std::vector<figure> extra = {};     // the same ones in every run of a table's cases where they apply
  std::vector<bucket> histogram = {}; // ascending; empty: none
};

/// What is counted in a run of its own, which is not timed: counting would be charged to the subjects.
enum class counting { nothing, allocations, system_calls };

struct benchmark_case {
  std::string subject;
  std::vector<parameter> parameters;
  /// Does so many operations. Throws what makes the subject fail. Empty: not available here.
  std::function<sample(std::uint64_t operations)> run;
  std::string unavailable = {}; // then the reason
  std::uint64_t operations = 0; // how many a run has; 0: as many as last long enough
};

/// The compiler of the file that calls it, as a parameter's value: "g++ 12.2.0".
inline std::string compiler() {
#if defined(__clang__)
  return "clang++ " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

/// Does what the command line says (`--help` lists it) and returns the exit status.
int subject_main(int argc, char** argv, std::vector<benchmark_case> const& cases);

} // namespace benchmarks
