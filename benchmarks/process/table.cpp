// process: what it costs to launch /bin/true and to wait for its end.

#include "runner/table.hpp"

namespace benchmarks {

table process_table(settings const& s) {
  table t{
      .name = "process",
      .title = "/bin/true, launched and waited for, by a process with `memory` MiB of its own",
      .unit = "ns per child",
      .reference = "posix_spawn",
      .counted = {counting::allocations},
      .notes =
          {"vfork: in C, without resetting signals and without closing anything, so it does less.",
           "unio: no other descriptor survives, no signal is ignored or blocked, and the child is known by "
           "a descriptor."},
  };
  for (char const* const program : {"process_posix", "process_unio"}) t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
