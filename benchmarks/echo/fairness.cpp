// fairness: the same servers as in echo, asked by many connections at once: whether each connection gets its
// share, and what a timer and a connection that asks rarely feel of it.

#include "echo/fairness.hpp"

#include "echo/servers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace benchmarks {
namespace {

constexpr std::string_view reference = "C";

// The plain program of each driver, which all others on that driver are compared with, has one name for both.
std::string subject_of(echo_server const& one) {
  const bool is_plain = one.subject == "epoll, C" || one.subject == "liburing, C";
  return is_plain ? std::string(reference) : one.subject;
}

} // namespace

sample fairness_of(sample const& loaded) {
  sample s{.elapsed_ns = loaded.elapsed_ns, .value = figure_of(loaded, "p99.9 µs")};
  const auto add = [&](std::string_view name) {
    s.extra.push_back({std::string(name), figure_of(loaded, name)});
  };
  for (char const* const name : {"requests/s", "p50 µs", "fewest", "most"}) add(name);
  s.extra.push_back({"most/fewest", figure_of(loaded, "most") / std::max(figure_of(loaded, "fewest"), 1.0)});
  for (char const* const name :
       {"timer p50 µs", "timer p99.9 µs", "slow p99 µs", "load CPU %", "load is the limit"})
    add(name);
  return s;
}

table fairness_table(settings const& s) {
  const std::uint64_t run_ms = s.quick ? 100 : 2000;
  const std::uint64_t warm_up_ms = s.quick ? 50 : 300;
  table t{
      .name = "fairness",
      .title =
          "an echo server that many connections keep busy: does each get its share, are others served in "
          "time?",
      .unit = "p99.9 of a request, µs",
      .higher_is_better = false,
      .reference = std::string(reference),
      .counted = {},
      .run_ms = static_cast<double>(run_ms),
      .rounds = s.quick ? 1 : 5,
      .notes =
          {"Each connection sends 64 bytes, waits until they have come back, and sends the next. Server and "
           "load generator are pinned to two processors.",
           fmt::format("{}: the plain C program on the same driver, 'epoll, C' and 'liburing, C' of echo. A "
                       "ratio of 0.67 is a p99.9 of 1.5 times its.",
                       reference),
           "fewest, most: requests of the connection that was answered least and most often. A connection "
           "that was not answered at all counts as 1 in most/fewest.",
           "timer: how late a timer of 1 ms in the server fires, which is armed again each time. libuv's "
           "count whole milliseconds and may be early, which counts as 0.",
           "slow: a connection beside the others that asks every 20 ms.",
           "load is the limit: its processor was busy for 97 % of the time or more."},
  };
  for (int const connections : {128, 1024}) {
    if (s.quick && connections != 128) continue;
    const echo_load l{
        .connections = connections, .bytes = 64, .warm_up_ms = warm_up_ms, .slow_ms = 20, .has_timer = true};
    for (char const* const driver : {"epoll", "io_uring"}) {
      for (echo_server const& one : echo_servers(s)) {
        if (one.driver != driver) continue;
        benchmark_case c =
            echo_case(s, one, l, run_ms, {{"connections", std::to_string(connections)}, {"driver", driver}});
        c.subject = subject_of(one);
        if (c.run) c.run = [run = std::move(c.run)](std::uint64_t ms) { return fairness_of(run(ms)); };
        t.cases.push_back(std::move(c));
      }
    }
  }
  return t;
}

} // namespace benchmarks
