// latency_uring: io_uring through liburing, in C.

#include "latency/uring.h"

#include "latency/round_trips.hpp"

#include <memory>

namespace latency {
namespace {

struct close_talker {
  void operator()(uring_talker* t) const noexcept { uring_close(t); }
};

template <bool Spins> benchmarks::sample on_ring(std::uint64_t operations, conversation const& c) {
  echo const peer(c.over);
  std::unique_ptr<uring_talker, close_talker> const talker(
      uring_open(peer.in(), peer.out(), c.over == transport::unix_socket ? 1 : 0));
  int error = talker == nullptr ? -errno : 0;
  benchmarks::sample s;
  if (error == 0)
    s = measure_trips(operations, c, [&](rounds& r) { error = uring_talk(talker.get(), Spins ? 1 : 0, &r); });
  if (error != 0) throw std::runtime_error(std::string("io_uring: ") + std::strerror(-error));
  return s;
}

} // namespace
} // namespace latency

int main(int argc, char** argv) {
  auto all = latency::cases_of("liburing, C", latency::on_ring<false>);
  auto const spinning = latency::cases_of("liburing, C, spinning", latency::on_ring<true>);
  all.insert(all.end(), spinning.begin(), spinning.end());
  return benchmarks::subject_main(argc, argv, all);
}
