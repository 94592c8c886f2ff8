// unio walk: lists what is below directories, or counts it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace walk {

struct options {
  std::vector<std::string> paths;
  std::string type; ///< empty: all; else some of f, d, l, p, s, b, c
  std::int64_t depth = -1;
  int threads = 0;
  bool summary = false;
  bool sort = false;
  bool null = false;
  bool follow = false;
  bool cross_mounts = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Prints the paths, or a line of sums for each path. Returns the exit status: 0, or 1 if something could not
/// be read, each with a line on stderr, or printed.
[[nodiscard]] int run(options const& o);

} // namespace walk
