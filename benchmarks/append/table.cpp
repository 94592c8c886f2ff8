// append: records that another process appends to a file, read as they come; beside them the same by a pipe.

#include "runner/table.hpp"

namespace benchmarks {

table append_table(settings const& s) {
  table t{
      .name = "append",
      .title = "records that another process writes, by a file that grows and by a pipe",
      .unit = "ns per record",
      .reference = "pipe, read(2)",
      .counted = {counting::system_calls, counting::allocations},
      .run_ms = 40,
      .rounds = 7,
      .notes = {"in a row: 4 KiB each, as fast as they can be written. one by one: 64 bytes each, written "
                "when the one "
                "before has been read: what waking up takes is most of it.",
                "The file is in the build directory. inotify, C: read(2), and where it finds nothing, "
                "read(2) of an "
                "inotify descriptor."},
  };
  for (char const* const program : {"append_posix", "append_unio"}) t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
