// latency, tail: the tail of a round trip (D2052R0 §5.3: worst cases, not averages).

#include "runner/table.hpp"

#include <algorithm>

namespace benchmarks {
namespace {

// The same number for all: of the worst one in ten thousand there must be some, and more trips find a worse
// one.
constexpr std::uint64_t trips = 10'256;
// Of the worst one in a million there must be some, too.
constexpr std::uint64_t many_trips = 10'000'256;

bool is_quick(benchmark_case const& c) {
  return std::find(c.parameters.begin(), c.parameters.end(), parameter{"over", "Unix socket"}) ==
             c.parameters.end() &&
         std::find(c.parameters.begin(), c.parameters.end(), parameter{"bytes", "64"}) == c.parameters.end();
}

// Those that never sleep, one byte over pipes: of the others one would measure the scheduler.
bool is_of_tail(benchmark_case const& c) {
  auto const says = [&](char const* word) { return c.subject.find(word) != std::string::npos; };
  bool const spins = says("spinning") || says("polled");
  return spins && is_quick(c);
}

std::vector<benchmark_case> all_cases(settings const& s) {
  std::vector<benchmark_case> all;
  for (char const* const program :
       {"latency_posix", "latency_uring", "latency_asio", "latency_asio_uring", "latency_unio"})
    all += program_cases(s, program);
  return all;
}

} // namespace

table tail_table(settings const& s) {
  table t{
      .name = "tail",
      .title =
          "a byte and its echo over pipes, by a process that spins on another processor, ten million times",
      .unit = "µs, median round trip",
      .reference = "read(2), spinning",
      .counted = {},
      .has_percentiles = true,
      .rounds = 1,
      .notes = {"Only subjects that never sleep. One round: look at it on a machine that does nothing else. "
                "What the "
                "scheduler and interrupts take is in it for all alike.",
                "The first 256 trips are not counted; with --quick there are 600."},
  };
  t.cases = all_cases(s);
  std::erase_if(t.cases, [](benchmark_case const& c) { return c.run && !is_of_tail(c); });
  for (benchmark_case& c : t.cases) c.operations = s.quick ? 600 : many_trips;
  return t;
}

table latency_table(settings const& s) {
  table t{
      .name = "latency",
      .title = "a message and its echo, by a process that spins on another processor",
      .unit = "µs, median round trip",
      .reference = "read(2)",
      .counted = {counting::allocations},
      .has_percentiles = true,
      .rounds = 7,
      .notes =
          {"Spinning and polled subjects never sleep. The others wake up for each echo, which costs most of "
           "their time and depends on the machine more than on them.",
           "Percentiles are of one run, of as many trips for all (10,000; with --quick 344); the histograms "
           "are of all runs. The first 256 trips of each are not counted."},
  };
  t.cases = all_cases(s);
  for (benchmark_case& c : t.cases) c.operations = s.quick ? 600 : trips;
  if (s.quick) std::erase_if(t.cases, [](benchmark_case const& c) { return !is_quick(c); });
  return t;
}

} // namespace benchmarks
