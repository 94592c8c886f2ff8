// Where the figures come from.
#pragma once

#include <string>

namespace benchmarks {

struct machine {
  std::string cpu;
  unsigned processors = 0;
  std::string kernel; // name and release
  std::string load;   // the average of the last minute: who else was here
};

machine this_machine();

} // namespace benchmarks
