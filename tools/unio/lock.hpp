// unio lock: runs a command while it holds names in a shared_fs_mutex; shows their owners.

#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lock {

struct options {
  std::string path;
  std::vector<std::string> command;
  std::vector<std::string> entities; ///< none: default_entity
  std::string algorithm = "byte_ranges";
  std::optional<std::string> timeout; ///< none: for ever
  bool shared = false;
  bool status = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Locks, runs the command, unlocks when it has ended. Returns the exit status: the command's, 128 + the
/// signal that ended it, 124 if the wait timed out; 125 if locking failed, 126 if the command cannot be
/// executed, 127 if it was not found (with one line on stderr); 2 for options that contradict each other.
[[nodiscard]] int run(options const& o);

/// Prints the owners. Returns the exit status: 0, or 1 if they cannot be found out (with one line on stderr).
[[nodiscard]] int show_status(options const& o);

/// What is locked when no name is given.
inline constexpr char const* default_entity = "unio lock";

} // namespace lock
