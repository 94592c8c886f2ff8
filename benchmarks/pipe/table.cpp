// pipe: one reader takes single bytes from a pipe that another process keeps full (D2052R0 §5.2).

#include "runner/table.hpp"

namespace benchmarks {

table pipe_table(settings const& s) {
  table t{
      .name = "pipe",
      .title =
          "single bytes from a pipe that another process keeps full; each completion starts the next read",
      .unit = "ns per byte",
      .reference = "read(2)",
      .counted = {counting::system_calls, counting::allocations},
      .run_ms = 40,
      .rounds = 11,
      .notes =
          {"One writer writes blocks of 64 KiB and sleeps while there is no room: it wakes for each page "
           "that was emptied. Four writers are threads of one process that write blocks of 256 bytes; all of "
           "them wake for a page.",
           "Multishot: one entry reads until its buffers are used up, each of one byte; the next read is the "
           "kernel's to start. Lent: the same by async_receive_many, with 64 buffers in the ring."},
  };
  for (char const* const program :
       {"pipe_posix", "pipe_uring", "pipe_asio", "pipe_asio_uring", "pipe_libuv", "pipe_unio"})
    t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
