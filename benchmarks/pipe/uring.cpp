// pipe_uring: io_uring through liburing, in C.

#include "pipe/uring.h"

#include "pipe/full_pipe.hpp"

#include <memory>

namespace pipe_bench {
namespace {

struct close_reader {
  void operator()(uring_reader* r) const noexcept { uring_close(r); }
};

benchmarks::sample on_ring(std::uint64_t operations, bool multishot) {
  full_pipe const pipe;
  std::unique_ptr<uring_reader, close_reader> const reader(uring_open(pipe.reader(), multishot ? 1 : 0));
  if (reader == nullptr) fail("io_uring", errno);
  int error = 0;
  benchmarks::sample s = measure_reading(operations, [&](bytes& b) { error = uring_read(reader.get(), &b); });
  if (error != 0) fail("io_uring", -error);
  return s;
}

} // namespace
} // namespace pipe_bench

int main(int argc, char** argv) {
  return benchmarks::subject_main(
      argc, argv,
      pipe_bench::by_writers({{.subject = "liburing, C",
                               .parameters = {},
                               .run = [](std::uint64_t n) { return pipe_bench::on_ring(n, false); }},
                              {.subject = "liburing, C, multishot",
                               .parameters = {},
                               .run = [](std::uint64_t n) { return pipe_bench::on_ring(n, true); }}}));
}
