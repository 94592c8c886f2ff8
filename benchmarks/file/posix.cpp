// file_posix: one read after the other.

#include "cases.hpp"

namespace {

using namespace benchmarks;

sample read_each(reading const& r) {
  const descriptor file = open_for(r.data, r.direct);
  const aligned_blocks room = make_blocks(1);
  return measure_with_processor(r.operations, [&] {
    for (std::uint64_t i = 0; i < r.operations; ++i) {
      const std::uint64_t block = block_of(i, r.data.blocks);
      const ssize_t n = ::pread(file.get(), room.get(), BLOCK_BYTES, static_cast<off_t>(block * BLOCK_BYTES));
      if (n < 0) fail("pread");
      if (n != BLOCK_BYTES) throw std::runtime_error("a short read");
      check_block(room.get(), block);
    }
  });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "pread(2)", {1}, read_each);
  return subject_main(argc, argv, cases);
}
