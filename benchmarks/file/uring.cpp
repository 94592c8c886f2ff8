// file_uring: liburing in C.

#include "uring.h"

#include "cases.hpp"

namespace {

using namespace benchmarks;

sample read_through_ring(reading const& r, uring_pins pins) {
  const descriptor file = open_for(r.data, r.direct);
  const aligned_blocks room = make_blocks(r.depth);
  int error = 0;
  const std::unique_ptr<uring_reader, void (*)(uring_reader*)> u(
      uring_open(file.get(), room.get(), r.depth, pins, &error), &uring_close);
  if (u != nullptr) {
    sample s = measure_with_processor(r.operations,
                                      [&] { error = uring_read(u.get(), r.operations, r.data.blocks); });
    if (error == 0) return s;
    if (error < 0) throw std::runtime_error("a read brought something else");
  }
  throw std::system_error(error, std::generic_category(), "liburing");
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "liburing, C", {1, 32},
            [](reading const& r) { return read_through_ring(r, URING_PINS_NOTHING); });
  add_cases(cases, "liburing, C, registered memory", {1, 32},
            [](reading const& r) { return read_through_ring(r, URING_PINS_MEMORY); });
  add_cases(cases, "liburing, C, registered", {1, 32},
            [](reading const& r) { return read_through_ring(r, URING_PINS_MEMORY_AND_FILE); });
  return subject_main(argc, argv, cases);
}
