// Where the figures come from.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace benchmarks {

struct machine {
  std::string cpu;
  unsigned processors = 0;
  std::string kernel;   // name, release, architecture
  std::string compiler; // of the runner and of all programs that do not say otherwise
  std::string pinned;   // "no", or the processors of subjects and of helpers
  std::string load;     // the average of the last minute: who else was here
  std::string date;     // UTC: 2026-11-24
  std::string commit;   // of the code that is measured, as ./run says: UNIO_BENCH_COMMIT; empty: unknown
};

/// As it is when first asked: later the load would be our own.
machine const& this_machine();

} // namespace benchmarks
