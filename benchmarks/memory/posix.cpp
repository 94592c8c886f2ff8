// memory_posix: epoll in C.

#include "memory/memory.hpp"
#include "memory/servers.h"

#include <system_error>

namespace {

void serve(std::string const& address, std::size_t buffer) {
  int e = listen_at(address.c_str());
  if (e >= 0) e = serve_epoll(e, buffer, memory::shared_buffer, memory::shared_buffer_size);
  throw std::system_error(-e, std::generic_category(), "epoll");
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> cases;
  memory::idle_connections(cases, "epoll, C", serve);
  return benchmarks::subject_main(argc, argv, cases);
}
