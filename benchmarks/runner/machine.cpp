// Reads /proc and uname(2).

#include "runner/machine.hpp"

#include "support/placement.hpp"
#include "support/subject.hpp"
#include "tools/support/machine.hpp"

#include <fmt/chrono.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

namespace benchmarks {
namespace {

std::string placement() {
  char const* const subject = std::getenv(subject_cpu_variable);
  char const* const helper = std::getenv(helper_cpu_variable);
  if (subject == nullptr || helper == nullptr) return "no";
  return std::string("subjects on ") + subject + ", helpers on " + helper;
}

machine look() {
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  char const* const commit = std::getenv("UNIO_BENCH_COMMIT");
  return {.cpu = tools::processor_name(),
          .processors = std::thread::hardware_concurrency(),
          .kernel = tools::kernel_name(),
          .compiler = compiler(),
          .pinned = placement(),
          .load = load,
          .date = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr))),
          .commit = commit != nullptr ? commit : ""};
}

} // namespace

machine const& this_machine() {
  static const machine here = look();
  return here;
}

} // namespace benchmarks
