// A client and a server in one process, over poll, select and epoll (edges, and once for each event).

#include "programs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace programs {
namespace {

constexpr std::size_t bytes_of_all = 20'000;
constexpr int connections = 5;

char nth(std::size_t i) { return static_cast<char>('a' + i % 23); }

struct peer {
  bool is_client = false;
  bool is_listener = false;
  bool has_ended = false; // no more will arrive
  std::size_t sent = 0;   // of a client
  std::size_t got = 0;
  std::string echo; // of a server: to be sent back
};

bool would_wait() { return errno == EAGAIN || errno == EINTR; }

struct world {
  std::map<int, peer> all;
  int done = 0;

  world() {
    all[listener(7001, SOCK_NONBLOCK)].is_listener = true;
    for (int i = 0; i != connections; ++i) all[connected(7001, SOCK_NONBLOCK)].is_client = true;
  }

  [[nodiscard]] static bool wants_out(peer const& p) {
    return p.is_client ? p.sent != bytes_of_all : !p.echo.empty();
  }
  [[nodiscard]] static bool wants_in(peer const& p) { return p.is_listener || !p.has_ended; }

  void close_one(int fd) {
    ::close(fd);
    all.erase(fd);
  }

  // All that can be done without waiting. The new connection of a listener, or -1.
  std::vector<int> advance(int fd) {
    std::vector<int> made;
    peer& p = all[fd];
    if (p.is_listener) {
      for (;;) {
        int const one = ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK);
        if (one < 0 && errno == EINTR) continue;
        if (one < 0) break;
        all[one] = {};
        made.push_back(one);
      }
      must(would_wait(), "accept");
      return made;
    }
    char bytes[4096];
    while (!p.has_ended) {
      ssize_t const n = ::recv(fd, bytes, sizeof bytes, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
      must(n >= 0, "recv");
      p.has_ended = n == 0;
      if (!p.is_client) {
        p.echo.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      for (ssize_t i = 0; i != n; ++i) must(bytes[i] == nth(p.got++), "the bytes are those that were sent");
    }
    while (wants_out(p)) {
      std::size_t const size =
          p.is_client ? std::min<std::size_t>(sizeof bytes, bytes_of_all - p.sent) : p.echo.size();
      if (p.is_client)
        for (std::size_t i = 0; i != size; ++i) bytes[i] = nth(p.sent + i);
      ssize_t const n = ::send(fd, p.is_client ? bytes : p.echo.data(), size, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
      must(n > 0, "send");
      if (p.is_client) {
        p.sent += static_cast<std::size_t>(n);
      } else {
        p.echo.erase(0, static_cast<std::size_t>(n));
      }
    }
    if (p.is_client && p.got == bytes_of_all) {
      ++done;
      close_one(fd);
    } else if (!p.is_client && p.has_ended && p.echo.empty()) {
      close_one(fd);
    }
    return made;
  }

  int finish() {
    while (!all.empty()) close_one(all.begin()->first);
    must(done == connections, "all have got their bytes back");
    return 0;
  }
};

} // namespace

int echo_by_poll() {
  world w;
  while (w.all.size() > 1) {
    std::vector<pollfd> fds;
    for (auto const& [fd, p] : w.all)
      fds.push_back({.fd = fd,
                     .events = static_cast<short>((world::wants_in(p) ? POLLIN : 0) |
                                                  (world::wants_out(p) ? POLLOUT : 0)),
                     .revents = 0});
    int const n = ::poll(fds.data(), fds.size(), -1);
    must(n > 0 || errno == EINTR, "poll");
    for (pollfd const& f : fds)
      if (n > 0 && f.revents != 0) (void)w.advance(f.fd);
  }
  return w.finish();
}

int echo_by_select() {
  world w;
  while (w.all.size() > 1) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    int most = 0;
    for (auto const& [fd, p] : w.all) {
      must(fd < 64, "numbers are small");
      if (world::wants_in(p)) FD_SET(fd, &in);
      if (world::wants_out(p)) FD_SET(fd, &out);
      most = std::max(most, fd);
    }
    timeval limit{.tv_sec = 3600, .tv_usec = 0};
    int const n = ::select(most + 1, &in, &out, nullptr, &limit);
    must(n > 0 || errno == EINTR, "select");
    for (int fd = 0; n > 0 && fd <= most; ++fd)
      if (FD_ISSET(fd, &in) || FD_ISSET(fd, &out)) (void)w.advance(fd);
  }
  return w.finish();
}

int echo_by_epoll() {
  world w;
  int const epoll = ::epoll_create1(EPOLL_CLOEXEC);
  must(epoll >= 0, "epoll_create1");
  auto const add = [&](int fd, bool is_client) {
    epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (is_client ? EPOLLET : EPOLLONESHOT);
    if (w.all[fd].is_listener) e.events = EPOLLIN;
    e.data.fd = fd;
    must(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
  };
  std::vector<int> first;
  for (auto const& [fd, p] : w.all) first.push_back(fd);
  for (int const fd : first) add(fd, w.all[fd].is_client);
  while (w.all.size() > 1) {
    epoll_event events[3];
    int const n = ::epoll_wait(epoll, events, 3, 3'600'000);
    must(n > 0 || (n < 0 && errno == EINTR), "epoll_wait");
    for (int i = 0; i < n; ++i) {
      int const fd = events[i].data.fd;
      for (int const made : w.advance(fd)) add(made, false);
      auto const left = w.all.find(fd);
      if (left == w.all.end() || left->second.is_client || left->second.is_listener) continue;
      epoll_event again{};
      again.events = EPOLLONESHOT | (world::wants_in(left->second) ? EPOLLIN : 0U) |
                     (world::wants_out(left->second) ? EPOLLOUT : 0U);
      again.data.fd = fd;
      must(::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &again) == 0, "epoll_ctl");
    }
  }
  ::close(epoll);
  return w.finish();
}

} // namespace programs
