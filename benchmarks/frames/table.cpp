// frames: what a coroutine for each read of a socket costs, by where its frame comes from.

#include "runner/table.hpp"

namespace benchmarks {

table frames_table(settings const& s) {
  table t{
      .name = "frames",
      .title =
          "single bytes from a Unix socket that another process keeps full, each read by a coroutine of its "
          "own",
      .unit = "ns per byte",
      .reference = "unio, no coroutine for a read",
      .counted = {counting::allocations},
      .run_ms = 40,
      .notes = {"What a frame costs is the difference to the first: its bytes are read by the coroutine that "
                "counts "
                "them.",
                "socket's: one block in the object that has the socket, which the coroutine's first "
                "parameter names "
                "(Coroutine-first asynchronous I/O §9.1)."},
  };
  t.cases = program_cases(s, "frames_unio");
  return t;
}

} // namespace benchmarks
