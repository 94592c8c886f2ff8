// sched_setaffinity(2) of one processor.

#include "support/placement.hpp"

#include <sched.h>

#include <cstdlib>

namespace benchmarks {

bool move_to_cpu(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpu), &one);
  return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

void move_helper_away() {
  if (char const* const cpu = std::getenv(helper_cpu_variable)) move_to_cpu(std::atoi(cpu));
}

} // namespace benchmarks
