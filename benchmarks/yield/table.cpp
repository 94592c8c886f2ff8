// yield: what it costs to let others go first, and to do nothing.

#include "runner/table.hpp"

namespace benchmarks {

table yield_table(settings const& s) {
  table t{
      .name = "yield",
      .title =
          "what does nothing: no-ops, `batch` of them for each io_uring_enter; posts, by `batch` that take "
          "turns",
      .unit = "ns per operation",
      .reference = "liburing, C",
      .counted = {counting::system_calls, counting::allocations},
      .notes =
          {"post: what is posted runs and posts itself again; awaited: a coroutine posts itself and goes on.",
           "asio callbacks: other threads may post, as with unio; without locks "
           "(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE): they "
           "may not. Its context has no I/O object, or it would ask epoll in every turn.",
           "unio post: a node that the caller has; function: one that is allocated."},
  };
  for (char const* const program : {"yield_uring", "yield_asio", "yield_unio", "yield_system"})
    t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
