// unio cp: copies files and trees with all that belongs to them, each put in place as one.

#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cp {

struct options {
  std::vector<std::string> paths; ///< sources, and the target last
  std::string progress = "auto";
  int threads = 0;
  bool replace = false;
  bool resume = false;
  bool durable = false;
  bool verify = false;
  bool allow_incomplete = false;
  bool dry_run = false;
  bool cross_mounts = false;
  bool verbose = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Copies. Returns the exit status: 0; 1 if something was not copied, each with a line on stderr; 2 for a
/// path
/// that is refused. Ends the program by the signal that interrupted it.
[[nodiscard]] int run(options const& o);

} // namespace cp
