// stat_posix: a loop of statx(2).

#include "stat/files.hpp"
#include "support/measure.hpp"

#include <sys/stat.h>

#include <stdexcept>

int main(int argc, char** argv) {
  using namespace benchmarks;
  const auto loop = [](std::uint64_t operations) {
    const files f;
    return measure_with_processor(operations, [&] {
      for (std::uint64_t i = 0; i < operations; ++i) {
        struct statx s;
        if (::statx(f.directory, f.names[i % f.names.size()].c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                    &s) != 0)
          throw std::runtime_error("statx");
      }
    });
  };
  return subject_main(argc, argv, {{.subject = "statx(2)", .parameters = {}, .run = loop}});
}
