// The runner's side of what support/subject.hpp describes.
#pragma once

#include "runner/table.hpp"

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace benchmarks {

/// A program that was started, with its standard output, and its input too, as pipes. Destroyed: told to end
/// (its input ends, SIGTERM), then killed if it does not, and waited for.
class child_program {
 public:
  /// Starts it on processor `cpu`, unless that is -1. Throws if it cannot be started.
  child_program(std::vector<std::string> arguments, int cpu);
  ~child_program();
  child_program(child_program const&) = delete;
  child_program& operator=(child_program const&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void write_line(std::string const& line);
  /// Throws if there is none in time, or the program has ended.
  std::string read_line(std::chrono::seconds patience);
  /// What is still to be read, and the exit status (128 + the signal that ended it).
  struct ending {
    std::string output;
    int status;
  };
  ending wait(std::chrono::seconds patience);

 private:
  bool more(std::chrono::steady_clock::time_point until); // false: the end

  std::string name_;
  std::string unread_;
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

/// A line that a subject's program said, as it described it. Throws what it failed with.
sample sample_from(std::string const& line);

/// The counting of the run to come, for cases that are of a program.
void count_in_programs(counting what);
/// The same, for cases that are of several programs.
counting counted_in_programs();

} // namespace benchmarks
