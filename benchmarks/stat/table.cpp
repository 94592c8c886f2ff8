// stat: the metadata of names that are cached.

#include "runner/table.hpp"

namespace benchmarks {

table stat_table(settings const& s) {
  table t{
      .name = "stat",
      .title = "the metadata of names of a directory that are cached",
      .unit = "ns per name",
      .reference = "statx(2)",
      .counted = {counting::allocations, counting::system_calls},
      .notes = {"CPU ns: processor time of all threads, the workers' included.",
                "A name by itself is looked for in the kernel's cache first: three system calls, but no "
                "thread. 64 "
                "together (co_stat_all) are one job of a thread that may block."},
  };
  for (char const* const program : {"stat_posix", "stat_unio"}) t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
