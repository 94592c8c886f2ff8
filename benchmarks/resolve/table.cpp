// resolve: names that a name server on loopback has.

#include "runner/table.hpp"

namespace benchmarks {

table resolve_table(settings const& s) {
  table t{
      .name = "resolve",
      .title =
          "looking up a name with an address of each family, one name after the other, at a name server "
          "on loopback that answers at once",
      .unit = "ns per name",
      .reference = "c-ares",
      .counted = {counting::system_calls, counting::allocations},
      .run_ms = 40,
      .rounds = 11,
      .notes =
          {"Both questions go to the server and both answers come back; then the addresses are sorted (RFC "
           "6724), for which all ask the kernel for its routes.",
           "c-ares: as ares_getaddrinfo(3) and poll(2); it closes its socket after each name. one socket: "
           "ARES_FLAG_STAYOPEN, whose port an attacker has longer to guess. getaddrinfo also reads the hosts "
           "file each time."},
  };
  for (char const* const program : {"resolve_cares", "resolve_libc", "resolve_unio"})
    t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
