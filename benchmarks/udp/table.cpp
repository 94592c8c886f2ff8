// udp: datagrams over loopback, one by one, in batches, and cut and joined by the kernel.

#include "runner/table.hpp"

namespace benchmarks {

table udp_table(settings const& s) {
  table t{
      .name = "udp",
      .title =
          "datagrams of 1,200 bytes from one socket to another over loopback: 48 are sent, then received",
      .unit = "ns per datagram, sent and received",
      .reference = "C",
      .counted = {counting::system_calls, counting::allocations},
      .run_ms = 40,
      .rounds = 11,
      .notes =
          {"One thread does both, so nothing ever waits and nothing is lost: it is the cost of the calls.",
           "batches: sendmmsg(2) and recvmmsg(2), 48 in a call in C, 32 in unio. segments: one send that "
           "the kernel cuts (GSO), one receive of what it has joined (GRO)."},
  };
  for (char const* const program : {"udp_posix", "udp_unio"}) t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
