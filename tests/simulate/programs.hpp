// tests/simulate/programs.hpp: programs that know nothing of unio, which `unio simulate` runs
// (scripts/check-simulate). Each takes its arguments and returns its exit status.

#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace programs {

int echo_by_poll();
int echo_by_select();
int echo_by_epoll();
int timers();
int threads();
int threads_of_c11();
int streams();
int lost_wakeup();
int short_read();
int late_short_read();
int fails_once(char const* file);
int unhandled_eintr();
int datagrams();
int files(char const* directory);
int logs(char const* directory);
int serve();
int ask(char const* what);
int waits_for_ever();
int holds_back();
int prints_for_ever();
int refused(char const* what, char const* file);
int names();
int meetings();
int locks();
int ends_early();

/// Ends the program where `is_met` is false.
inline void must(bool is_met, char const* what) {
  if (is_met) return;
  std::fprintf(stderr, "%s: errno %d\n", what, errno);
  std::exit(1);
}

inline sockaddr_in local(unsigned short port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

/// A socket that listens on the port.
inline int listener(unsigned short port, int flags) {
  int const fd = ::socket(AF_INET, SOCK_STREAM | flags, 0);
  sockaddr_in const at = local(port);
  int const on = 1;
  must(fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "socket");
  must(::bind(fd, reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0 && ::listen(fd, 16) == 0, "listen");
  return fd;
}

/// One that connects to it; without blocking it may still be under way.
inline int connected(unsigned short port, int flags) {
  int const fd = ::socket(AF_INET, SOCK_STREAM | flags, 0);
  sockaddr_in const to = local(port);
  int r = 0;
  do {
    r = ::connect(fd, reinterpret_cast<sockaddr const*>(&to), sizeof to);
  } while (r != 0 && errno == EINTR && flags == 0);
  must(fd >= 0 && (r == 0 || errno == EINPROGRESS || errno == EINTR), "connect");
  return fd;
}

} // namespace programs
