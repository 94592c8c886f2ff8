// growth_epoll: plain C, but for what holds the descriptors.

#include "growth/counts.hpp"

#include <sys/epoll.h>

namespace {

using namespace growth_bench;

class poller {
 public:
  poller() : fd_(::epoll_create1(EPOLL_CLOEXEC)) { check(fd_ >= 0, "epoll_create1"); }
  poller(poller const&) = delete;
  ~poller() { ::close(fd_); }
  void add(int fd) {
    epoll_event e{.events = EPOLLIN, .data = {.fd = fd}};
    check(::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
  }
  template <class F> void turn(std::size_t left, F f) {
    std::array<epoll_event, batch> ready;
    while (left != 0) {
      int const n = ::epoll_wait(fd_, ready.data(), batch, -1);
      check(n > 0, "epoll_wait");
      for (int i = 0; i < n; ++i) f(ready[static_cast<std::size_t>(i)].data.fd);
      left -= static_cast<std::size_t>(n);
    }
  }

 private:
  int fd_;
};

sample pending(std::size_t count, std::uint64_t operations) {
  poller p;
  descriptors events;
  for (std::size_t i = 0; i < count; ++i) {
    events.all.push_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    check(events.all.back() >= 0, "eventfd");
    p.add(events.all.back());
  }
  std::uint64_t value = 1;
  auto const signal = [&](std::size_t i) { check(::write(events.all[i], &value, 8) == 8, "write"); };
  auto const take = [&](int fd) { check(::read(fd, &value, 8) == 8, "read"); };
  return in_batches(count, operations, signal, [&](std::size_t n) { p.turn(n, take); }, [](std::size_t) {});
}

sample connections(std::size_t count, std::uint64_t operations) {
  poller p;
  descriptors peers, served;
  connect_pairs(count, peers, [&](int fd) {
    served.all.push_back(fd);
    p.add(fd);
  });
  auto const echo = [](int fd) {
    std::array<char, 4096> room;
    ssize_t const n = ::read(fd, room.data(), room.size());
    check(n > 0 && ::write(fd, room.data(), static_cast<std::size_t>(n)) == n, "echo");
  };
  return in_batches(
      count, operations, [&](std::size_t i) { send_to(peers.all[i]); },
      [&](std::size_t n) { p.turn(n, echo); }, [&](std::size_t i) { receive_from(peers.all[i]); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "C, epoll", "pending", most_pending(), pending);
  add_cases(cases, "C, epoll", "connections", most_connections(), connections);
  return subject_main(argc, argv, cases);
}
