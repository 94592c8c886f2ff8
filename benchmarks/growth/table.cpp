// growth: how the cost of an operation grows with what waits meanwhile.

#include "runner/table.hpp"

#include <string>

namespace benchmarks {
namespace {

bool is_large(benchmark_case const& c) {
  for (parameter const& p : c.parameters)
    if (p.name == "count") return std::stoul(p.value) > 1000;
  return false;
}

} // namespace

table growth_table(settings const& s) {
  table t{
      .name = "growth",
      .title = "one operation while `count` of them wait: 32 that are drawn at random, in turns",
      .unit = "ns per operation",
      .reference = "C, epoll",
      .counted = {counting::system_calls, counting::allocations},
      .curves_over = {"count"},
      .run_ms = 50,
      .rounds = 5,
      .notes = {"timers: one is cancelled and set again, to a moment within the next hour or two.",
                "pending: one of the events that are waited for is signalled, taken, and waited for again.",
                "connections: one of the peers sends 64 bytes and gets them back, over a Unix socket.",
                "The most descriptors that the system allows may be fewer than 100,000 events or 10,000 "
                "connections.",
                "What grows in all subjects alike is the caches' and the kernel's."},
  };
  for (char const* const program : {"growth_epoll", "growth_asio", "growth_unio"})
    t.cases += program_cases(s, program);
  if (s.quick) std::erase_if(t.cases, is_large);
  return t;
}

} // namespace benchmarks
