#include "bench.hpp"

#include "complain.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

namespace bench {

int run(char** arguments) {
  // build/PRESET/tools/unio/unio, build/PRESET/benchmarks/unio_bench
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = self.parent_path().parent_path().parent_path() / "benchmarks/unio_bench";
  ::execv(program.c_str(), arguments);
  int const error = errno;
  if (error == ENOENT) {
    complain(
        fmt::format("unio bench: the benchmarks are not built beside this command: {} is missing; in the "
                    "project's folder, ./run bench builds them\n",
                    escaped(program)));
  } else {
    complain(fmt::format("unio bench: {}: {}\n", escaped(program), std::strerror(error)));
  }
  return 1;
}

} // namespace bench
