// unio simulate: runs a program once for each seed, in a simulated system.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace simulate {

struct options {
  std::vector<std::string> command;
  std::uint64_t seeds = 100;
  std::uint64_t from = 0;
  std::optional<std::string> faults;  ///< none: the usual ones
  std::optional<std::string> latency; ///< none: 0..5ms
  std::vector<std::string> files;
  std::optional<std::string> input; ///< a file; none: empty
  std::optional<std::string> keep; ///< decisions; none: all
  bool shrink = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Runs the command for each seed. Returns the exit status: 0, 1 if one failed or could not be simulated, 2
/// for wrong usage, 126 if the command cannot be executed, 127 if it was not found.
[[nodiscard]] int run(options const& o);

} // namespace simulate
