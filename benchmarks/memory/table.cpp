// memory: what an idle connection costs, and a coroutine that waits.

#include "runner/table.hpp"

#include <algorithm>

namespace benchmarks {

table memory_table(settings const& s) {
  table t{
      .name = "memory",
      .title = "one more idle connection of an echo server; one more suspended coroutine",
      .unit = "bytes",
      .reference = "asio coroutines",
      .rounds = s.quick ? 1 : 5,
      .notes =
          {"Private memory of the process (Private_Dirty of /proc/PID/smaps_rollup) between 100 of them and "
           "so many more.",
           "What the kernel holds is not counted: sockets, entries of epoll, requests of io_uring.",
           "A connection has sent one message, as long as its buffer, and waits for the next. Unix sockets, "
           "so that no ports run out; what a server holds is the same.",
           "buffer 0: it waits until there is something to be read, then uses one buffer that all share."},
  };
  for (std::string const program :
       {"memory_posix", "memory_uring", "memory_libuv", "memory_asio", "memory_asio_uring", "memory_unio"})
    t.cases += program_cases(s, program);
  // The programs offer more. What says of a program that it is missing has no parameters.
  std::erase_if(t.cases, [&](benchmark_case const& c) {
    const auto is = [&](char const* name, char const* value) {
      return std::ranges::count(c.parameters, parameter{name, value}) != 0;
    };
    const char* count = s.quick ? "10000" : "1000000";
    if (is("of", "idle connection")) count = s.quick ? "500" : "10000";
    return !c.parameters.empty() && !is("count", count);
  });
  return t;
}

} // namespace benchmarks
