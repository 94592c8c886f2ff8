// Reads /proc and uname(2).

#include "runner/machine.hpp"

#include "support/placement.hpp"
#include "support/subject.hpp"

#include <sys/utsname.h>

#include <cstdlib>
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

std::string placement() {
  char const* const subject = std::getenv(subject_cpu_variable);
  char const* const helper = std::getenv(helper_cpu_variable);
  if (subject == nullptr || helper == nullptr) return "no";
  return std::string("subjects on ") + subject + ", helpers on " + helper;
}

machine look() {
  utsname names = {};
  ::uname(&names);
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  return {.cpu = cpu_model(),
          .processors = std::thread::hardware_concurrency(),
          .kernel = std::string(names.sysname) + " " + names.release,
          .compiler = compiler(),
          .pinned = placement(),
          .load = load};
}

} // namespace

machine const& this_machine() {
  static const machine here = look();
  return here;
}

} // namespace benchmarks
