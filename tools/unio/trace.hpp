// unio trace: how long operations take, in a program that runs or in a recording.

#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trace {

struct options {
  std::string process;  ///< its number; empty: none is watched
  unsigned seconds = 0; ///< 0: until SIGINT
  bool print = false;   ///< the script, instead of running it
  std::string record;
  std::string show;
  std::vector<std::string> command; ///< what `record` runs
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Watches, records or shows. Where another program is run it takes this one's place. Returns the exit
/// status: 0, 1 with a line on stderr, 2 for wrong usage, 126 if the program cannot be executed, 127 if it
/// was not found.
[[nodiscard]] int run(options const& o);

/// The text about a recording: `bytes` are the file's. Throws std::runtime_error if they are none.
[[nodiscard]] std::string told(std::string const& bytes);

} // namespace trace
