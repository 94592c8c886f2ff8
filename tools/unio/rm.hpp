// unio rm: removes files and trees.

#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rm {

struct options {
  std::vector<std::string> paths;
  std::string progress = "auto";
  int threads = 0;
  bool recursive = false;
  bool force = false;
  bool dry_run = false;
  bool cross_mounts = false;
  bool verbose = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Removes. Returns the exit status: 0; 1 if something remains, each with a line on stderr; 2 for a path that
/// is refused. Ends the program by the signal that interrupted it.
[[nodiscard]] int run(options const& o);

} // namespace rm
