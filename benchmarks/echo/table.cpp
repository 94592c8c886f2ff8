// echo: servers that send back what they receive (liburing4cpp demo/echo_server). For each run a server is
// started, and echo_load loads it and asks the kernel what that cost the server.

#include "echo/servers.hpp"

#include <fmt/format.h>

namespace benchmarks {
namespace {

constexpr std::uint64_t warm_up_ms = 50;

std::vector<echo_load> loads(settings const& s) {
  if (s.quick) return {{.connections = 16, .bytes = 64, .warm_up_ms = warm_up_ms}};
  std::vector<echo_load> all;
  for (int const bytes : {64, 4096}) {
    all.push_back({.connections = 1, .bytes = bytes, .warm_up_ms = warm_up_ms, .one_core = true});
    for (int const connections : {1, 16, 128, 1024})
      all.push_back({.connections = connections, .bytes = bytes, .warm_up_ms = warm_up_ms});
  }
  return all;
}

} // namespace

table echo_table(settings const& s) {
  // A run's operations are milliseconds here: how many requests they hold is what is measured.
  const std::uint64_t run_ms = s.quick ? 50 : 120;
  table t{
      .name = "echo",
      .title = "an echo server over loopback TCP: what a second of its processor time achieves",
      .unit = "requests per second of server CPU",
      .higher_is_better = true,
      .reference = "epoll, C",
      .counted = {},
      .curves_over = {"connections"},
      .has_percentiles = true,
      .run_ms = static_cast<double>(run_ms),
      .rounds = s.quick ? 1 : 13,
      .notes = {"Each connection sends a message, waits until all of it has come back, compares it, and "
                "sends the next.",
                "Server and load generator are pinned, to two processors or both to the server's "
                "(placement); the buffers "
                "of all servers have 8 KiB, and TCP_NODELAY is set.",
                "fewest, most: requests of the connection that was answered least and most often, in a run.",
                "user % and system %: of the server's time, sampled by the kernel's tick.",
                fmt::format("load is the limit: its processor was busy for 97 % of the time or more. Then "
                            "requests/s and the "
                            "percentiles are its own; the server's time per request is not."),
                "On virtual processors that share a core a busy load generator makes the server's "
                "instructions slower, for "
                "all subjects alike."},
  };
  for (echo_load const& l : loads(s)) {
    const processors where = places(s, l);
    for (echo_server const& one : echo_servers(s))
      t.cases.push_back(
          echo_case(s, one, l, run_ms,
                    {{"placement", where.server == where.load ? "one processor" : "two processors"},
                     {"bytes", std::to_string(l.bytes)},
                     {"connections", std::to_string(l.connections)}}));
  }
  return t;
}

} // namespace benchmarks
