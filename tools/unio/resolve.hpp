// unio resolve: prints the addresses of a host.

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace resolve {

struct options {
  std::string name;
  std::string server; ///< empty: as the system's files say
  double timeout_s = 5;
  bool only_ipv4 = false;
  bool only_ipv6 = false;
  bool explain = false;
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Prints an address per line. Returns the exit status: 0, or 1 with one line on stderr that names the host
/// and the reason.
[[nodiscard]] int run(options const& o);

} // namespace resolve
