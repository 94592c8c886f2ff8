// unio lock: runs a command while it holds names in a shared_fs_mutex; shows who holds what.

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
  std::vector<std::string> entities; ///< none: one that is the same for everybody
  std::string algorithm = "byte_ranges";
  std::optional<std::string> timeout; ///< none: for ever
  bool shared = false;
  bool status = false;
};

/// Puts what is behind the first "--" into o.command, word by word, and returns the end of what is before:
/// CLI11 makes two words of "[a,b]".
[[nodiscard]] char** take_command(int argc, char** argv, options& o);

/// Adds the command's options, which will be found in `o`.
void describe(CLI::App& app, options& o);

/// Locks, runs the command, lets go when that has ended. Returns the exit status: the command's, 128 + the
/// signal that ended it, 124 if the time was over before; 125 if locking failed, 126 if the command cannot be
/// executed, 127 if it was not found (one line on stderr says what); 2 for options that contradict each
/// other.
[[nodiscard]] int run(options const& o);

/// Prints who holds what. Returns the exit status: 0, or 1 if it cannot be seen (one line on stderr says
/// why).
[[nodiscard]] int show_status(options const& o);

/// What is locked when no name is given.
inline constexpr char const* default_entity = "unio lock";

} // namespace lock
