// unio echo: a server that sends back what it receives, in the mode that is asked for.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace echo {

struct options {
  std::string address = "127.0.0.1"; ///< IPv4, or IPv6
  std::uint16_t port = 7777;         ///< 0: any
  std::string mode = "awaited";
  std::vector<std::string> identity; ///< empty: no TLS, or the files of its certificates and of their key
  std::string driver;                ///< empty: the best there is, or what UNIO_DRIVER names
  int threads = 1;
  bool is_shared = false;            ///< all threads run one multiplexer
  std::chrono::milliseconds busy{0}; ///< a thread computes so long of each twice as long; 0: none does
  std::string timer; ///< empty: none, or the file that a timer beside the connections writes to
};

/// Adds the command's options, which set `o`.
void describe(CLI::App& app, options& o);

/// Serves until SIGINT or SIGTERM, then ends the open connections. Reports an error of accepting on stderr,
/// and continues after a pause. Returns the command's exit status: 0; 1 if it could not serve or continue;
/// 2 for an address that is none (stderr says why).
[[nodiscard]] int run(options const& o);

} // namespace echo
