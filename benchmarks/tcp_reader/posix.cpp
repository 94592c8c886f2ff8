// tcp_reader_posix: recv(2), and a state machine on epoll, in C.

#include "cases.hpp"
#include "state_machine.h"

#include <fcntl.h>

#include <system_error>

namespace {

using namespace benchmarks;

using reader = std::int64_t (*)(int, unsigned char*, std::size_t, std::uint64_t);

sample run(reader f, sender& from, receiving& to) {
  return measure_reading(from, to, [&] {
    const std::int64_t got = f(from.socket(), to.room(), to.room_bytes(), to.wanted());
    if (got < 0) throw std::system_error(static_cast<int>(-got), std::generic_category(), "recv");
    to.set_got(static_cast<std::uint64_t>(got));
  });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "recv(2)", [](sender& from, receiving& to) { return run(read_with_recv, from, to); });
  add_cases(cases, "state machine, C, epoll", [](sender& from, receiving& to) {
    ::fcntl(from.socket(), F_SETFL, O_NONBLOCK);
    return run(read_with_states, from, to);
  });
  return subject_main(argc, argv, cases);
}
