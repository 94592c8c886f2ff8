// mock: composed operations whose I/O costs nothing. The programs of other compilers' builds stand beside
// ours, in the same rounds.

#include "runner/table.hpp"

#include <filesystem>

namespace benchmarks {

table mock_table(settings const& s) {
  table t{
      .name = "mock",
      .title = "composed operations whose I/O costs nothing; depth: I/Os of one top-level operation",
      .unit = "ns per operation",
      .reference = "callbacks, recycled",
      .counted = {counting::allocations},
      .run_ms = s.quick ? 2.0 : 20.0,
      .rounds = s.quick ? 5 : 11,
      .notes = {"async_io is the leaf, async_read_some one of it, async_read ten of those, async_request ten "
                "of those.",
                "Each compiler has its own reference; differences between figures below 5 ns depend on where "
                "code lies."},
      .cases = program_cases(s, "mock_bench"),
  };
  for (std::string const& program : s.other)
    if (std::filesystem::path(program).filename() == "mock_bench") t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
