#include "tools/support/machine.hpp"

#include <sys/utsname.h>

#include <fstream>

namespace tools {

std::string kernel_name() {
  utsname u = {};
  (void)::uname(&u);
  return std::string(u.sysname) + " " + u.release + " " + u.machine;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    auto const colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor of unknown make";
}

} // namespace tools
