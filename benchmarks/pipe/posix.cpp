// pipe_posix: bare system calls.

#include "pipe/epoll.h"
#include "pipe/full_pipe.hpp"

namespace pipe_bench {
namespace {

benchmarks::sample read_loop(std::uint64_t operations) {
  full_pipe const pipe;
  return measure_reading(operations, [fd = pipe.reader()](bytes& b) {
    unsigned char byte = 0;
    do {
      if (::read(fd, &byte, 1) != 1) return;
    } while (bytes_take(&b, byte) != 0);
  });
}

benchmarks::sample on_epoll(std::uint64_t operations) {
  full_pipe const pipe;
  pipe.make_non_blocking();
  int const epoll = epoll_open(pipe.reader());
  if (epoll < 0) fail("epoll", -epoll);
  benchmarks::sample s = measure_reading(operations, [&](bytes& b) { epoll_read(epoll, pipe.reader(), &b); });
  ::close(epoll);
  return s;
}

} // namespace
} // namespace pipe_bench

int main(int argc, char** argv) {
  return benchmarks::subject_main(
      argc, argv,
      pipe_bench::by_writers({{.subject = "read(2)", .parameters = {}, .run = pipe_bench::read_loop},
                              {.subject = "epoll, C", .parameters = {}, .run = pipe_bench::on_epoll}}));
}
