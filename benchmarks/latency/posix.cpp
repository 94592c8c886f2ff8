// latency_posix: bare system calls, asleep and spinning, and epoll.

#include "latency/epoll.h"
#include "latency/round_trips.hpp"

namespace latency {
namespace {

bool send_all(int out, rounds& r) {
  return ::write(out, r.message, r.bytes) == static_cast<ssize_t>(r.bytes);
}

// Asleep in read(2) where the descriptor blocks, otherwise spinning.
void talk(int in, int out, rounds& r) {
  do {
    if (!send_all(out, r)) return;
    ssize_t n;
    do n = ::read(in, r.reply, r.bytes);
    while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n != static_cast<ssize_t>(r.bytes)) return;
  } while (rounds_next(&r) != 0);
}

benchmarks::sample blocking(std::uint64_t operations, conversation const& c) {
  echo const peer(c.over);
  return measure_trips(operations, c, [&](rounds& r) { talk(peer.in(), peer.out(), r); });
}

benchmarks::sample spinning(std::uint64_t operations, conversation const& c) {
  echo const peer(c.over);
  peer.make_non_blocking();
  return measure_trips(operations, c, [&](rounds& r) { talk(peer.in(), peer.out(), r); });
}

benchmarks::sample on_epoll(std::uint64_t operations, conversation const& c) {
  echo const peer(c.over);
  peer.make_non_blocking();
  int const epoll = epoll_open(peer.in());
  if (epoll < 0) throw std::runtime_error(std::string("epoll: ") + std::strerror(-epoll));
  benchmarks::sample s =
      measure_trips(operations, c, [&](rounds& r) { epoll_talk(epoll, peer.in(), peer.out(), &r); });
  ::close(epoll);
  return s;
}

} // namespace
} // namespace latency

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> all;
  for (auto const& some : {latency::cases_of("read(2)", latency::blocking),
                           latency::cases_of("read(2), spinning", latency::spinning),
                           latency::cases_of("epoll, C", latency::on_epoll)})
    all.insert(all.end(), some.begin(), some.end());
  return benchmarks::subject_main(argc, argv, all);
}
