// A benchmark: subjects side by side, each under several parameters, measured in turns.
//
//   parameter       what distinguishes the rows of one subject: a name and a value
//   benchmark_case  one subject under one set of parameters
//   description     a benchmark: its cases, and the subject the others are compared with
//   run             the main program: options, rounds, table, JSON
//
// The cases run interleaved (A B C A B C ...), so that what the machine does meanwhile meets all of them
// alike.
#pragma once

#include "support/measure.hpp"

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

struct benchmark_case {
  std::string subject;
  std::vector<parameter> parameters;
  std::function<sample(std::uint64_t operations)> run; // empty: not available here
  std::string unavailable = {};                        // then the reason
};

struct description {
  std::string name;
  std::string operation; // what is counted, for the table's title: "top-level operation"
  std::string reference; // the subject all ratios refer to
  std::vector<benchmark_case> cases;
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
int run(int argc, char** argv, description benchmark);

} // namespace benchmarks
