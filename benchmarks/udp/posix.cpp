// udp_posix: bare system calls, in C.

#include "support/measure.hpp"
#include "udp/ways.hpp"

namespace udp_bench {
namespace {

benchmarks::sample run(udp_way way, std::uint64_t operations) {
  udp_sockets s;
  if (int const e = udp_open(&s, way); e != 0) fail("sockets", -e);
  int error = 0;
  benchmarks::sample const result =
      benchmarks::measure(operations, [&] { error = udp_exchange(&s, way, operations); });
  udp_close(&s);
  if (error != 0) fail("datagrams", -error);
  return result;
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all;
  for (named_way const& w : all_ways)
    all.push_back({.subject = "C",
                   .parameters = {{"way", w.name}},
                   .run = [way = w.way](std::uint64_t operations) { return run(way, operations); }});
  return all;
}

} // namespace
} // namespace udp_bench

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, udp_bench::cases()); }
