// unio doctor: what this machine offers unio, what it keeps back, and what to change.

#pragma once

namespace CLI {
class App;
}

namespace doctor {

struct options {
  bool json = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Prints a line for each thing it looked at. Returns the exit status: 0, also with hints, or 1 if something
/// does not work.
[[nodiscard]] int run(options const& o);

} // namespace doctor
