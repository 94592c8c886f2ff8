// Reads /proc and uname(2).

#include "support/machine.hpp"

#include <sys/utsname.h>

#include <fstream>
#include <thread>

namespace benchmarks {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown"; // not every architecture names its model
}

} // namespace

machine this_machine() {
  utsname names = {};
  ::uname(&names);
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  return {.cpu = cpu_model(),
          .processors = std::thread::hardware_concurrency(),
          .kernel = std::string(names.sysname) + " " + names.release,
          .load = load};
}

} // namespace benchmarks
