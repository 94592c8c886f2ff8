// unio::testing_libc, linked: programs that call the C library's functions run in a simulation that a test
// makes, many in one process. Without a simulation those functions are the kernel's.

#include "programs.hpp"

#include <unio/testing.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <thread>

namespace {

using unio::testing::simulation;
using unio::testing::simulation_options;

simulation_options without_resets(std::uint64_t seed) {
  simulation_options o = simulation_options::from_seed(seed);
  o.resets = false;
  return o;
}

void run_seeds(std::uint64_t seeds, int (*program)()) {
  for (std::uint64_t seed = 0; seed != seeds; ++seed) {
    std::uint64_t first = 0;
    for (int time = 0; time != 2; ++time) {
      simulation s(without_resets(seed));
      ASSERT_EQ(program(), 0) << "seed " << seed;
      ASSERT_EQ(s.open_descriptors(), 0u) << "seed " << seed;
      ASSERT_EQ(s.refused(), "") << "seed " << seed;
      if (time == 0) first = s.fingerprint();
      ASSERT_EQ(s.fingerprint(), first) << "seed " << seed;
    }
  }
}

TEST(linked_libc, runs_a_program_over_poll) { run_seeds(200, programs::echo_by_poll); }
TEST(linked_libc, runs_a_program_over_select) { run_seeds(100, programs::echo_by_select); }
TEST(linked_libc, runs_a_program_over_epoll) { run_seeds(200, programs::echo_by_epoll); }

TEST(linked_libc, lets_hours_pass_in_no_time) {
  auto const begin = std::chrono::steady_clock::now();
  {
    simulation s(simulation_options::orderly());
    EXPECT_EQ(programs::timers(), 0);
    EXPECT_EQ(s.open_descriptors(), 0u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

TEST(linked_libc, sends_datagrams) {
  for (std::uint64_t seed = 0; seed != 50; ++seed) {
    simulation const s(without_resets(seed));
    EXPECT_EQ(programs::datagrams(), 0) << "seed " << seed;
  }
}

TEST(linked_libc, is_the_kernel_without_a_simulation) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  EXPECT_EQ(::write(fds[0], "abc", 3), 3);
  pollfd p{.fd = fds[1], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1);
  char bytes[8];
  EXPECT_EQ(::read(fds[1], bytes, sizeof bytes), 3);
  int const copy = ::dup(fds[0]);
  EXPECT_EQ(::fcntl(copy, F_GETFD), 0);
  EXPECT_EQ(::fcntl(fds[0], F_GETFD), FD_CLOEXEC);
  int const epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event e{};
  e.events = EPOLLOUT;
  EXPECT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &e), 0);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 1000), 1);
  for (int const fd : {fds[0], fds[1], copy, epoll}) EXPECT_EQ(::close(fd), 0);
  EXPECT_EQ(::close(epoll), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(linked_libc, leaves_other_threads_to_the_kernel) {
  simulation_options o = simulation_options::orderly();
  o.other_threads = true;
  simulation const s(o);
  int const ours = ::socket(AF_INET, SOCK_STREAM, 0);
  std::thread([] {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    EXPECT_EQ(::write(fds[1], "x", 1), 1);
    char c = 0;
    EXPECT_EQ(::read(fds[0], &c, 1), 1);
    ::close(fds[0]);
    ::close(fds[1]);
  }).join();
  EXPECT_EQ(::close(ours), 0);
}

TEST(linked_libc, says_what_is_not_simulated) {
  ::testing::internal::CaptureStderr();
  simulation const s(simulation_options::orderly());
  EXPECT_EQ(::socket(AF_INET, SOCK_RAW, 0), -1);
  EXPECT_EQ(errno, ENOSYS);
  EXPECT_NE(s.refused().find("socket(2) of this family"), std::string::npos);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("is not simulated"), std::string::npos);
}

TEST(linked_libc, forgets_what_an_earlier_simulation_left_open) {
  int left = -1;
  {
    simulation const s(simulation_options::orderly());
    left = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_GE(left, 0);
  }
  simulation const s(simulation_options::orderly());
  int const next = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(next, left);
  EXPECT_EQ(::close(next), 0);
}

TEST(linked_libc, gives_descriptors_the_lowest_number) {
  simulation const s(simulation_options::orderly());
  int fds[3];
  for (int& fd : fds) fd = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::close(fds[1]), 0);
  int const timer = ::timerfd_create(CLOCK_MONOTONIC, 0);
  EXPECT_EQ(timer, fds[1]);
  EXPECT_LT(fds[2], 64);
  int const high = ::fcntl(timer, F_DUPFD_CLOEXEC, 50);
  EXPECT_GE(high, 50);
  for (int const fd : {fds[0], timer, fds[2], high}) EXPECT_EQ(::close(fd), 0);
  EXPECT_EQ(s.open_descriptors(), 0u);
}

TEST(linked_libc, keeps_a_socket_until_its_last_number_is_closed) {
  simulation const s(simulation_options::orderly());
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  int const copy = ::dup(fds[0]);
  EXPECT_EQ(::close(fds[0]), 0);
  EXPECT_EQ(::write(copy, "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(fds[1], &c, 1), 1);
  EXPECT_EQ(::close(copy), 0);
  EXPECT_EQ(::read(fds[1], &c, 1), 0);
  EXPECT_EQ(::close(fds[1]), 0);
}

// Edges, as epoll(7) says: once for what has arrived, again when more does, or after EAGAIN.
TEST(linked_libc, tells_an_edge_once) {
  simulation const s(simulation_options::orderly());
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  int const epoll = ::epoll_create1(0);
  epoll_event e{};
  e.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, fds[1], &e), 0);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 0);
  EXPECT_EQ(::write(fds[0], "abc", 3), 3);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 1);
  char c = 0;
  EXPECT_EQ(::read(fds[1], &c, 1), 1);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 0) << "the rest is no news";
  EXPECT_EQ(::write(fds[0], "d", 1), 1);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 1);
  ::close(fds[0]);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 1);
  EXPECT_NE(e.events & EPOLLHUP, 0u);
  EXPECT_EQ(::epoll_wait(epoll, &e, 1, 0), 0);
  ::close(fds[1]);
  ::close(epoll);
}

TEST(linked_libc, reports_a_refused_connection_as_poll_does) {
  simulation const s(simulation_options::orderly());
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in const nowhere = programs::local(1);
  int const r = ::connect(fd, reinterpret_cast<sockaddr const*>(&nowhere), sizeof nowhere);
  EXPECT_EQ(r, -1);
  if (errno == EINPROGRESS) {
    pollfd p{.fd = fd, .events = POLLOUT, .revents = 0};
    EXPECT_EQ(::poll(&p, 1, -1), 1);
    EXPECT_NE(p.revents & POLLERR, 0);
    int error = 0;
    socklen_t size = sizeof error;
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
    EXPECT_EQ(error, ECONNREFUSED);
  } else {
    EXPECT_EQ(errno, ECONNREFUSED);
  }
  ::close(fd);
}

// What programs rely on at the edge of what a call is for: the kernel answers first, then a simulation.
struct same_answer {
  char const* of;
  long (*ask)();
};

template <class Ask> long of_pipe(Ask ask) {
  int fds[2];
  if (::pipe2(fds, O_NONBLOCK) != 0) return -1000;
  long const r = ask(fds[0], fds[1]);
  ::close(fds[0]);
  ::close(fds[1]);
  return r;
}
template <class Ask> long of_counter(int fd, Ask ask) {
  long const r = ask(fd);
  ::close(fd);
  return r;
}
long or_errno(ssize_t r) { return r < 0 ? -errno : r; }
long ready(int fd) {
  pollfd p{.fd = fd, .events = POLLIN | POLLOUT, .revents = 0};
  return ::poll(&p, 1, 0) < 0 ? -errno : p.revents;
}
char room[8] = {1};

// The two ends of a connection, and what has accepted the second. `ask` may close them.
template <class Ask> long of_tcp(Ask ask) {
  int const l = programs::listener(0, 0), client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  socklen_t size = sizeof at;
  if (::getsockname(l, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      ::connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
    return -1000;
  int const server = ::accept(l, nullptr, nullptr);
  long const r = ask(client, server, l);
  for (int const fd : {client, server, l}) ::close(fd);
  return r;
}
// The client of a server that has closed without having read all.
template <class Ask> long of_reset(Ask ask) {
  return of_tcp([&](int client, int server, int) -> long {
    if (::send(client, room, 3, 0) != 3) return -1000;
    ::close(server);
    return ask(client);
  });
}
template <class Ask> long of_udp(Ask ask) {
  int const a = ::socket(AF_INET, SOCK_DGRAM, 0), b = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in at = programs::local(0);
  socklen_t size = sizeof at;
  if (::bind(b, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      ::getsockname(b, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      ::sendto(a, "hello", 5, 0, reinterpret_cast<sockaddr*>(&at), sizeof at) != 5)
    return -1000;
  long const r = ask(b);
  ::close(a);
  ::close(b);
  return r;
}
// A Unix socket that listens at a path in a directory of its own.
template <class Ask> long of_path(Ask ask) {
  char folder[] = "/tmp/unio_linked_XXXXXX";
  if (::mkdtemp(folder) == nullptr) return -1000;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  (void)std::snprintf(at.sun_path, sizeof at.sun_path, "%.90s/s", folder);
  int const l = ::socket(AF_UNIX, SOCK_STREAM, 0);
  bool const listens = ::bind(l, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::listen(l, 1) == 0;
  long const r = listens ? ask(at, l) : -errno;
  ::close(l);
  ::unlink(at.sun_path);
  ::rmdir(folder);
  return r;
}
int error_of(int fd) {
  int error = -1000;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : -errno;
}
timespec before_all{.tv_sec = -1, .tv_nsec = 0};

// What a call is given has no order; what stands in braces has.
long both(std::initializer_list<long> in_order) { return *in_order.begin() * 100'000 + in_order.begin()[1]; }
// What is reported, as soon as the other end has gone, or refused.
long hung_up(int fd) {
  pollfd p{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&p, 1, 10'000) < 0 ? -errno : p.revents;
}
// The client of a server that has closed, and what becomes of the first byte that it sends then.
template <class Ask> long after_a_close(Ask ask) {
  return of_tcp([&](int client, int server, int) -> long {
    ::close(server);
    pollfd p{.fd = client, .events = POLLIN, .revents = 0};
    if (::poll(&p, 1, 10'000) != 1 || ::send(client, room, 1, MSG_NOSIGNAL) != 1) return -1000;
    return both({hung_up(client), ask(client)});
  });
}
// A socket that connects, without waiting, to where none listens.
template <class Ask> long of_refused(int flags, Ask ask) {
  int const l = programs::listener(0, 0), fd = ::socket(AF_INET, SOCK_STREAM | flags, 0);
  sockaddr_in at{};
  socklen_t size = sizeof at;
  if (::getsockname(l, reinterpret_cast<sockaddr*>(&at), &size) != 0) return -1000;
  ::close(l);
  auto const* const to = reinterpret_cast<sockaddr const*>(&at);
  long const first = or_errno(::connect(fd, to, sizeof at));
  (void)hung_up(fd);
  long const r = both({first, ask(fd, to)});
  ::close(fd);
  return r;
}
// One that is connected to where none receives, and has sent there.
template <class Ask> long of_udp_refused(Ask ask) {
  int const a = ::socket(AF_INET, SOCK_DGRAM, 0), b = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in at = programs::local(0);
  socklen_t size = sizeof at;
  if (::bind(b, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      ::getsockname(b, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      ::connect(a, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
    return -1000;
  ::close(b);
  if (::send(a, "x", 1, 0) != 1) return -1000;
  long const r = both({hung_up(a), ask(a)});
  ::close(a);
  return r;
}
long option_of(int fd, int level, int name) {
  int value = -1000;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -errno;
}
template <int Level, int Name, int Type = SOCK_STREAM> long of_new() {
  return of_counter(::socket(AF_INET, Type, 0), [](int fd) { return option_of(fd, Level, Name); });
}
template <int Level, int Name, int Value> long of_set() {
  return of_counter(::socket(AF_INET, SOCK_STREAM, 0), [](int fd) {
    int const value = Value;
    return both({or_errno(::setsockopt(fd, Level, Name, &value, sizeof value)), option_of(fd, Level, Name)});
  });
}
template <class Ask> long of_pair(Ask ask) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0) return -1000;
  long const r = ask(fds[0], fds[1]);
  ::close(fds[0]);
  ::close(fds[1]);
  return r;
}
long watch(int epoll, int op, int fd, unsigned events) {
  epoll_event e{};
  e.events = events;
  e.data.fd = fd;
  return or_errno(::epoll_ctl(epoll, op, fd, &e));
}
long watched(int epoll) {
  epoll_event e{};
  int const n = ::epoll_wait(epoll, &e, 1, 0);
  return n == 1 ? static_cast<long>(e.events) : or_errno(n);
}

constexpr same_answer same[] = {
    {"pread of a pipe", [] { return of_pipe([](int r, int) { return or_errno(::pread(r, room, 1, 0)); }); }},
    {"pwrite to a pipe",
     [] { return of_pipe([](int, int w) { return or_errno(::pwrite(w, room, 1, 0)); }); }},
    {"pread of an eventfd",
     [] { return of_counter(::eventfd(1, 0), [](int fd) { return or_errno(::pread(fd, room, 8, 0)); }); }},
    {"a full eventfd",
     [] {
       return of_counter(::eventfd(0, EFD_NONBLOCK), [](int fd) {
         std::uint64_t const most = ~std::uint64_t{0} - 1;
         return ::write(fd, &most, sizeof most) == 8 ? ready(fd) : -1000;
       });
     }},
    {"a timer that is not armed",
     [] { return of_counter(::timerfd_create(CLOCK_MONOTONIC, 0), [](int fd) { return ready(fd); }); }},
    {"the mode of a pipe's reading end",
     [] { return of_pipe([](int r, int) { return long{::fcntl(r, F_GETFL) & O_ACCMODE}; }); }},
    {"the mode of a pipe's writing end",
     [] { return of_pipe([](int, int w) { return long{::fcntl(w, F_GETFL) & O_ACCMODE}; }); }},
    {"a connection that was reset", [] { return of_reset([](int fd) { return ready(fd); }); }},
    {"its error", [] { return of_reset([](int fd) { return long{error_of(fd)}; }); }},
    {"a read after its error",
     [] { return of_reset([](int fd) { return error_of(fd) + or_errno(::recv(fd, room, 1, 0)); }); }},
    {"a write to it",
     [] { return of_reset([](int fd) { return or_errno(::send(fd, room, 1, MSG_NOSIGNAL)); }); }},
    {"SO_LINGER with 0 seconds",
     [] {
       return of_tcp([](int client, int server, int) {
         linger const none{.l_onoff = 1, .l_linger = 0};
         (void)::setsockopt(server, SOL_SOCKET, SO_LINGER, &none, sizeof none);
         ::close(server);
         return or_errno(::recv(client, room, 1, 0));
       });
     }},
    {"SO_LINGER that was not set",
     [] {
       return of_tcp([](int client, int, int) {
         linger told{.l_onoff = 7, .l_linger = 7};
         socklen_t size = sizeof told;
         (void)::getsockopt(client, SOL_SOCKET, SO_LINGER, &told, &size);
         return long{told.l_onoff + told.l_linger} + long{size};
       });
     }},
    {"an option that is too short",
     [] {
       return of_tcp([](int client, int, int) {
         return or_errno(::setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, room, 1));
       });
     }},
    {"a timeout of too many microseconds",
     [] {
       return of_tcp([](int client, int, int) {
         timeval const t{.tv_sec = 1, .tv_usec = 1'000'000};
         return or_errno(::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
       });
     }},
    {"a timeout of less than no time",
     [] {
       return of_tcp([](int client, int, int) {
         timeval const t{.tv_sec = -1, .tv_usec = 0};
         (void)::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
         return or_errno(::recv(client, room, 1, 0));
       });
     }},
    {"a shutdown of a listener",
     [] { return of_tcp([](int, int, int l) { return or_errno(::shutdown(l, SHUT_RDWR)); }); }},
    {"an accept after it",
     [] {
       return of_tcp([](int, int, int l) {
         (void)::shutdown(l, SHUT_RD);
         return ready(l) * 1000 + or_errno(::accept(l, nullptr, nullptr));
       });
     }},
    {"a shutdown of nothing",
     [] { return of_tcp([](int client, int, int) { return or_errno(::shutdown(client, 7)); }); }},
    {"the errors of a stream, and then its bytes",
     [] {
       return of_tcp([](int client, int server, int) {
         (void)::send(server, "abc", 3, 0);
         iovec v{.iov_base = room, .iov_len = 3};
         msghdr m{};
         m.msg_iov = &v;
         m.msg_iovlen = 1;
         return or_errno(::recvmsg(client, &m, MSG_ERRQUEUE)) * 10 + or_errno(::recv(client, room, 3, 0));
       });
     }},
    {"the length of a datagram",
     [] { return of_udp([](int fd) { return or_errno(::recv(fd, room, 2, MSG_TRUNC)); }); }},
    {"the length of a datagram that stays",
     [] {
       return of_udp([](int fd) {
         return or_errno(::recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC)) * 10 +
                or_errno(::recv(fd, room, 8, 0));
       });
     }},
    {"the path of a Unix socket",
     [] {
       return of_path([](sockaddr_un const& at, int) {
         struct stat s{};
         return ::stat(at.sun_path, &s) != 0 ? long{-errno} : long{s.st_mode & S_IFMT};
       });
     }},
    {"a Unix socket at the path of an earlier one",
     [] {
       return of_path([](sockaddr_un const& at, int) {
         int const next = ::socket(AF_UNIX, SOCK_STREAM, 0);
         auto const* const to = reinterpret_cast<sockaddr const*>(&at);
         long const before = or_errno(::bind(next, to, sizeof at));
         long const unlinked = or_errno(::unlink(at.sun_path));
         long const after = or_errno(::bind(next, to, sizeof at));
         ::close(next);
         return before * 1'000'000 + unlinked * 1000 + after;
       });
     }},
    {"the length of a Unix socket's name, and of its client's",
     [] {
       return of_path([](sockaddr_un const& at, int l) {
         int const client = ::socket(AF_UNIX, SOCK_STREAM, 0);
         (void)::connect(client, reinterpret_cast<sockaddr const*>(&at), sizeof at);
         sockaddr_un name{};
         socklen_t of_peer = sizeof name, of_client = sizeof name;
         (void)::getpeername(client, reinterpret_cast<sockaddr*>(&name), &of_peer);
         int const server = ::accept(l, reinterpret_cast<sockaddr*>(&name), &of_client);
         ::close(client);
         ::close(server);
         return long{of_peer} * 1000 + long{of_client};
       });
     }},
    {"a byte that is sent after the peer has closed, and the next one",
     [] { return after_a_close([](int fd) { return or_errno(::send(fd, room, 1, MSG_NOSIGNAL)); }); }},
    {"its error", [] { return after_a_close([](int fd) { return both({error_of(fd), error_of(fd)}); }); }},
    {"a read after it",
     [] { return after_a_close([](int fd) { return or_errno(::recv(fd, room, 1, 0)) + ready(fd); }); }},
    {"the peer of a connection that was reset",
     [] {
       return of_reset([](int fd) {
         sockaddr_in name{};
         socklen_t size = sizeof name;
         (void)hung_up(fd);
         return both({or_errno(::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size)),
                      or_errno(::shutdown(fd, SHUT_WR))});
       });
     }},
    {"a connection that both have ended",
     [] {
       return of_tcp([](int client, int server, int) {
         (void)::shutdown(client, SHUT_WR);
         (void)::shutdown(server, SHUT_WR);
         return both({hung_up(client), or_errno(::shutdown(client, SHUT_WR))});
       });
     }},
    {"what became of a connection, twice",
     [] {
       return of_tcp([](int, int, int l) {
         int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
         sockaddr_in at{};
         socklen_t size = sizeof at;
         (void)::getsockname(l, reinterpret_cast<sockaddr*>(&at), &size);
         auto const* const to = reinterpret_cast<sockaddr const*>(&at);
         long const first = or_errno(::connect(fd, to, sizeof at));
         pollfd p{.fd = fd, .events = POLLOUT, .revents = 0};
         (void)::poll(&p, 1, 10'000);
         long const second = or_errno(::connect(fd, to, sizeof at));
         long const third = or_errno(::connect(fd, to, sizeof at));
         ::close(fd);
         return both({first, both({second, third})}) + p.revents;
       });
     }},
    {"what became of one that was refused",
     [] {
       return of_refused(SOCK_NONBLOCK, [](int fd, sockaddr const* to) {
         long const state = ready(fd), error = error_of(fd);
         return both({state, error}) + ready(fd) + or_errno(::recv(fd, room, 1, 0)) +
                or_errno(::connect(fd, to, sizeof(sockaddr_in)));
       });
     }},
    {"a connect after it",
     [] {
       return of_refused(SOCK_NONBLOCK, [](int fd, sockaddr const* to) {
         long const second = or_errno(::connect(fd, to, sizeof(sockaddr_in)));
         return both({second, or_errno(::connect(fd, to, sizeof(sockaddr_in)))});
       });
     }},
    {"one that waited, and was refused",
     [] {
       return of_refused(0, [](int fd, sockaddr const*) {
         return both({ready(fd), error_of(fd)}) + or_errno(::recv(fd, room, 1, 0));
       });
     }},
    {"a read of what does not connect",
     [] {
       return of_tcp([](int, int, int l) {
         return both({or_errno(::recv(l, room, 1, 0)), or_errno(::send(l, room, 1, MSG_NOSIGNAL))});
       });
     }},
    {"the same of a Unix socket",
     [] {
       return of_counter(::socket(AF_UNIX, SOCK_STREAM, 0), [](int fd) {
         return both({or_errno(::recv(fd, room, 1, 0)), or_errno(::send(fd, room, 1, MSG_NOSIGNAL))});
       });
     }},
    {"a second one that listens at the same address",
     [] {
       return of_tcp([](int, int, int l) {
         int const other = ::socket(AF_INET, SOCK_STREAM, 0), mine = ::socket(AF_INET, SOCK_STREAM, 0),
                   on = 1;
         for (int const fd : {mine, other}) (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
         sockaddr_in at = programs::local(0);
         socklen_t size = sizeof at;
         (void)::bind(mine, reinterpret_cast<sockaddr*>(&at), sizeof at);
         (void)::getsockname(mine, reinterpret_cast<sockaddr*>(&at), &size);
         long const named = or_errno(::bind(other, reinterpret_cast<sockaddr*>(&at), sizeof at));
         long const first = or_errno(::listen(mine, 1)), second = or_errno(::listen(other, 1));
         long const again = or_errno(::listen(l, 2));
         ::close(other);
         ::close(mine);
         return both({named, both({first, second})}) + again;
       });
     }},
    {"a datagram to where none receives",
     [] { return of_udp_refused([](int fd) { return or_errno(::recv(fd, room, 1, MSG_DONTWAIT)); }); }},
    {"the next one", [] { return of_udp_refused([](int fd) { return or_errno(::send(fd, room, 1, 0)); }); }},
    {"its error, once",
     [] { return of_udp_refused([](int fd) { return both({error_of(fd), error_of(fd)}) + ready(fd); }); }},
    {"TCP_KEEPIDLE of a new socket", of_new<IPPROTO_TCP, TCP_KEEPIDLE>},
    {"TCP_KEEPCNT", of_new<IPPROTO_TCP, TCP_KEEPCNT>},
    {"TCP_NODELAY", of_new<IPPROTO_TCP, TCP_NODELAY>},
    {"TCP_NODELAY of datagrams", of_new<IPPROTO_TCP, TCP_NODELAY, SOCK_DGRAM>},
    {"IP_TTL", of_new<IPPROTO_IP, IP_TTL>},
    {"IP_MULTICAST_TTL", of_new<IPPROTO_IP, IP_MULTICAST_TTL, SOCK_DGRAM>},
    {"IP_MULTICAST_LOOP", of_new<IPPROTO_IP, IP_MULTICAST_LOOP, SOCK_DGRAM>},
    {"SO_RCVLOWAT", of_new<SOL_SOCKET, SO_RCVLOWAT>},
    {"SO_TYPE", of_new<SOL_SOCKET, SO_TYPE, SOCK_DGRAM>},
    {"SO_DOMAIN", of_new<SOL_SOCKET, SO_DOMAIN>},
    {"SO_PROTOCOL", of_new<SOL_SOCKET, SO_PROTOCOL>},
    {"SO_ACCEPTCONN of what listens",
     [] { return of_tcp([](int, int, int l) { return option_of(l, SOL_SOCKET, SO_ACCEPTCONN); }); }},
    {"SO_KEEPALIVE that was set to 7", of_set<SOL_SOCKET, SO_KEEPALIVE, 7>},
    {"TCP_NODELAY that was set to -1", of_set<IPPROTO_TCP, TCP_NODELAY, -1>},
    {"TCP_KEEPIDLE of no time", of_set<IPPROTO_TCP, TCP_KEEPIDLE, 0>},
    {"TCP_KEEPCNT of too many", of_set<IPPROTO_TCP, TCP_KEEPCNT, 128>},
    {"IP_TTL of too many", of_set<IPPROTO_IP, IP_TTL, 256>},
    {"SO_RCVBUF of a byte", of_set<SOL_SOCKET, SO_RCVBUF, 1>},
    {"TCP_NODELAY of a Unix socket",
     [] { return of_pair([](int fd, int) { return option_of(fd, IPPROTO_TCP, TCP_NODELAY); }); }},
    {"a timeout of what has accepted",
     [] {
       return of_tcp([](int, int, int l) {
         timeval const t{.tv_sec = 3, .tv_usec = 0};
         (void)::setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
         sockaddr_in at{};
         socklen_t size = sizeof at, told = sizeof t;
         (void)::getsockname(l, reinterpret_cast<sockaddr*>(&at), &size);
         int const client = ::socket(AF_INET, SOCK_STREAM, 0);
         (void)::connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at);
         int const server = ::accept(l, nullptr, nullptr);
         timeval has{};
         (void)::getsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &has, &told);
         ::close(client);
         ::close(server);
         return long{has.tv_sec};
       });
     }},
    {"receiving nothing",
     [] {
       return of_pair([](int a, int b) {
         long const nothing = both({or_errno(::recv(a, room, 0, 0)), or_errno(::read(a, room, 0))});
         (void)::send(b, "abc", 3, 0);
         return nothing + or_errno(::recv(a, room, 0, 0)) + or_errno(::recv(a, room, 8, 0));
       });
     }},
    {"writing nothing to where none reads",
     [] {
       return of_pipe([](int r, int w) {
         ::close(r);
         return or_errno(::write(w, room, 0));
       });
     }},
    {"the size of a pipe",
     [] { return of_pipe([](int, int w) { return or_errno(::fcntl(w, F_SETPIPE_SZ, 5000)); }); }},
    {"a poll of more than may be open", [] { return or_errno(::poll(nullptr, 100'000'000, 0)); }},
    {"the mode of a Unix socket's path",
     [] {
       mode_t const before = ::umask(027);
       long const r = of_path([](sockaddr_un const& at, int) {
         struct stat s{};
         return ::stat(at.sun_path, &s) != 0 ? long{-errno} : long{s.st_mode & 0777};
       });
       ::umask(before);
       return r;
     }},
    {"dprintf to a socket",
     [] {
       return of_pair([](int a, int b) {
         long const n = or_errno(::dprintf(a, "%d and %s", 17, "more"));
         char bytes[32] = {};
         return both({n, or_errno(::recv(b, bytes, sizeof bytes, 0))}) + bytes[1];
       });
     }},
    {"preadv2 of a pipe",
     [] {
       return of_pipe([](int r, int w) {
         iovec v{.iov_base = room, .iov_len = 8};
         (void)::write(w, "abc", 3);
         return both({or_errno(::preadv2(r, &v, 1, 0, 0)), or_errno(::preadv2(r, &v, 1, -1, 0))});
       });
     }},
    {"posix_fadvise of a pipe",
     [] { return of_pipe([](int r, int) { return long{::posix_fadvise(r, 0, 0, POSIX_FADV_NORMAL)}; }); }},
    {"sendfile from a pipe",
     [] {
       return of_pipe([](int r, int w) {
         (void)::write(w, "abc", 3);
         return of_pair([r](int a, int) { return or_errno(::sendfile(a, r, nullptr, 3)); });
       });
     }},
    {"a timer of a clock that there is not", [] { return or_errno(::timerfd_create(77, 0)); }},
    {"a timer of a processor's time", [] { return or_errno(::timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0)); }},
    {"a timer that never expires",
     [] {
       return of_counter(::timerfd_create(CLOCK_MONOTONIC, 0), [](int fd) {
         itimerspec t{};
         t.it_value.tv_sec = std::numeric_limits<time_t>::max();
         long const armed = or_errno(::timerfd_settime(fd, 0, &t, nullptr));
         return both({armed, or_errno(::timerfd_gettime(fd, &t))}) + ready(fd) +
                (t.it_value.tv_sec > 1'000'000);
       });
     }},
    {"a timer that is long overdue",
     [] {
       return of_counter(::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), [](int fd) {
         itimerspec t{};
         (void)::clock_gettime(CLOCK_REALTIME, &t.it_value);
         t.it_value.tv_sec -= 5'000;
         t.it_interval.tv_sec = 2'000;
         std::uint64_t n = 0;
         (void)::timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, nullptr);
         return both({or_errno(::read(fd, &n, sizeof n)), static_cast<long>(n)});
       });
     }},
    {"the time that is left to an eventfd",
     [] {
       return of_counter(::eventfd(0, 0), [](int fd) {
         itimerspec t{};
         return or_errno(::timerfd_gettime(fd, &t));
       });
     }},
    {"an eventfd that counts one by one",
     [] {
       return of_counter(::eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE), [](int fd) {
         std::uint64_t n = 0;
         (void)::read(fd, &n, sizeof n);
         (void)::read(fd, &n, sizeof n);
         return both({static_cast<long>(n), or_errno(::read(fd, &n, sizeof n))});
       });
     }},
    {"epolls that watch each other",
     [] {
       return of_counter(::epoll_create1(0), [](int a) {
         return of_counter(::epoll_create1(0), [a](int b) {
           long const first =
               both({watch(a, EPOLL_CTL_ADD, b, EPOLLIN), watch(b, EPOLL_CTL_ADD, a, EPOLLIN)});
           return both({first, watched(a)});
         });
       });
     }},
    {"an epoll that watches another one for edges",
     [] {
       return of_pair([](int a, int b) {
         return of_counter(::epoll_create1(0), [a, b](int inner) {
           return of_counter(::epoll_create1(0), [a, b, inner](int outer) {
             (void)watch(inner, EPOLL_CTL_ADD, a, EPOLLIN);
             (void)watch(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLET);
             (void)::send(b, "x", 1, 0);
             long const first = both({watched(outer), watched(outer)});
             (void)::send(b, "x", 1, 0);
             return both({first, watched(outer)}) + watched(outer);
           });
         });
       });
     }},
    {"EPOLLEXCLUSIVE",
     [] {
       return of_pair([](int a, int b) {
         return of_counter(::epoll_create1(0), [a, b](int fd) {
           long const wrong = watch(fd, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT);
           long const added = watch(fd, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE);
           (void)watch(fd, EPOLL_CTL_ADD, b, EPOLLIN);
           return both({wrong, added}) + both({watch(fd, EPOLL_CTL_MOD, a, EPOLLIN),
                                               watch(fd, EPOLL_CTL_MOD, b, EPOLLIN | EPOLLEXCLUSIVE)});
         });
       });
     }},
    {"EPOLLONESHOT",
     [] {
       return of_pair([](int a, int b) {
         return of_counter(::epoll_create1(0), [a, b](int fd) {
           (void)watch(fd, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT);
           (void)::send(b, "x", 1, 0);
           long const first = both({watched(fd), watched(fd)});
           (void)watch(fd, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT);
           return both({first, watched(fd)}) + watched(fd);
         });
       });
     }},
    {"a connection that is made of what is watched for edges",
     [] {
       return of_tcp([](int, int, int l) {
         int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
         sockaddr_in at{};
         socklen_t size = sizeof at;
         (void)::getsockname(l, reinterpret_cast<sockaddr*>(&at), &size);
         long const r = of_counter(::epoll_create1(0), [&](int epoll) {
           (void)watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET);
           long const first = both({watched(epoll), watched(epoll)});
           (void)::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at);
           pollfd p{.fd = fd, .events = POLLOUT, .revents = 0};
           (void)::poll(&p, 1, 10'000);
           return both({first, watched(epoll)}) + watched(epoll);
         });
         ::close(fd);
         return r;
       });
     }},
    {"an epoll_wait with room for one of three",
     [] {
       return of_pipe([](int a, int wa) {
         return of_pipe([&](int b, int wb) {
           return of_pipe([&](int c, int wc) {
             return of_counter(::epoll_create1(0), [&](int epoll) {
               long told = 0;
               for (int const fd : {a, b, c}) (void)watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
               for (int const fd : {wa, wb, wc}) (void)::write(fd, "x", 1);
               for (int i = 0; i != 3; ++i) {
                 epoll_event e{};
                 (void)::epoll_wait(epoll, &e, 1, 0);
                 told |= e.data.fd == a ? 1 : e.data.fd == b ? 2 : 4;
               }
               return told;
             });
           });
         });
       });
     }},
    {"a connect of datagrams, by the size of the address",
     [] {
       return of_counter(::socket(AF_INET, SOCK_DGRAM, 0), [](int fd) {
         sockaddr_in to = programs::local(7);
         long all = 0;
         for (socklen_t const size : {0, 1, 2, 8, 15, 16, 28})
           all = all * 3 + (::connect(fd, reinterpret_cast<sockaddr*>(&to), size) == 0);
         return all;
       });
     }},
    {"what is left of a name after a connect with AF_UNSPEC",
     [] {
       long all = 0;
       for (bool const chooses : {false, true}) {
         all = all * 100 + of_counter(::socket(AF_INET, SOCK_DGRAM, 0), [chooses](int fd) -> long {
                 sockaddr_in to = programs::local(7), any{}, name{};
                 any.sin_family = AF_INET;
                 if (chooses && ::bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) return -1000;
                 (void)::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);
                 any.sin_family = AF_UNSPEC;
                 (void)::connect(fd, reinterpret_cast<sockaddr*>(&any), sizeof any);
                 socklen_t size = sizeof name;
                 (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
                 return (name.sin_port != 0) * 2 + (name.sin_addr.s_addr == 0);
               });
       }
       return all;
     }},
    {"a datagram from an IPv6 socket to an IPv4 address",
     [] {
       return of_udp([](int b) {
         sockaddr_in at{};
         socklen_t size = sizeof at;
         (void)::getsockname(b, reinterpret_cast<sockaddr*>(&at), &size);
         auto const* const to = reinterpret_cast<sockaddr const*>(&at);
         return of_counter(::socket(AF_INET6, SOCK_DGRAM, 0), [to](int fd) {
           long const sent = both(
               {or_errno(::sendto(fd, "x", 1, 0, to, sizeof at)), or_errno(::sendto(fd, "x", 1, 0, to, 8))});
           long const named = both({sent, or_errno(::connect(fd, to, sizeof at))});
           int const yes = 1;
           return of_counter(::socket(AF_INET6, SOCK_DGRAM, 0), [&](int only) {
             (void)::setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
             return named + both({or_errno(::sendto(only, "x", 1, 0, to, sizeof at)),
                                  or_errno(::connect(only, to, sizeof at))});
           });
         });
       });
     }},
    {"an IPv6 address without a scope, or with one that means nothing",
     [] {
       return of_counter(::socket(AF_INET6, SOCK_DGRAM, 0), [](int fd) -> long {
         sockaddr_in6 at{};
         at.sin6_family = AF_INET6;
         at.sin6_addr = in6addr_loopback;
         at.sin6_scope_id = 77;
         socklen_t size = sizeof at;
         if (::bind(fd, reinterpret_cast<sockaddr*>(&at), offsetof(sockaddr_in6, sin6_scope_id)) != 0 ||
             ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
           return -errno;
         at.sin6_scope_id = 77;
         (void)::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at);
         (void)::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size);
         return both({at.sin6_scope_id, or_errno(::send(fd, "x", 1, 0))}) + ::recv(fd, room, 8, 0);
       });
     }},
    {"a read of no byte of a datagram",
     [] {
       return of_udp([](int fd) { return both({or_errno(::read(fd, room, 0)), ::recv(fd, room, 8, 0)}); });
     }},
    {"control messages that no option asks for",
     [] {
       return of_udp([](int fd) {
         char control[100];
         iovec v{room, 1};
         msghdr m{};
         m.msg_iov = &v;
         m.msg_iovlen = 1;
         m.msg_control = control;
         m.msg_controllen = sizeof control;
         return both({or_errno(::recvmsg(fd, &m, 0)), static_cast<long>(m.msg_controllen)}) + m.msg_flags;
       });
     }},
    {"a recvmmsg whose time is over, or none",
     [] {
       return of_udp([](int fd) {
         iovec v{room, 8};
         mmsghdr all[2]{};
         for (mmsghdr& m : all) m.msg_hdr.msg_iov = &v, m.msg_hdr.msg_iovlen = 1;
         timespec none{.tv_sec = 0, .tv_nsec = 0};
         return both(
             {or_errno(::recvmmsg(fd, all, 2, 0, &before_all)), or_errno(::recvmmsg(fd, all, 2, 0, &none))});
       });
     }},
    {"what is no socket, as one",
     [] {
       return of_pipe([](int r, int w) {
         long const pipe = both({or_errno(::recv(r, room, 8, 0)), or_errno(::send(w, room, 1, 0))});
         return of_counter(::eventfd(1, EFD_NONBLOCK), [pipe](int fd) {
           return pipe + both({or_errno(::recv(fd, room, 8, 0)), or_errno(::accept(fd, nullptr, nullptr))});
         });
       });
     }},
    {"the size of an address that is none",
     [] {
       return of_udp_refused([](int fd) {
         (void)error_of(fd);
         iovec v{room, 1};
         msghdr m{};
         m.msg_namelen = sizeof(sockaddr_in);
         m.msg_iov = &v;
         m.msg_iovlen = 1;
         return or_errno(::sendmsg(fd, &m, 0));
       });
     }},
    {"an accept of datagrams",
     [] { return of_udp([](int fd) { return or_errno(::accept(fd, nullptr, nullptr)); }); }},
    {"a message of more pieces than there may be",
     [] {
       return of_tcp([](int client, int, int) {
         std::vector<iovec> many(1025, iovec{room, 0});
         msghdr m{};
         m.msg_iov = many.data();
         m.msg_iovlen = many.size();
         return both({or_errno(::sendmsg(client, &m, 0)), or_errno(::recvmsg(client, &m, MSG_DONTWAIT))});
       });
     }},
    {"the name of a Unix socket that is bound to a path without its NUL",
     [] {
       return of_path([](sockaddr_un at, int) -> long {
         at.sun_path[std::strlen(at.sun_path) - 1] = 't';
         auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(at.sun_path));
         long const r = of_counter(::socket(AF_UNIX, SOCK_STREAM, 0), [&](int fd) -> long {
           sockaddr_un name{};
           socklen_t room_for_it = sizeof name;
           if (::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
               ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &room_for_it) != 0)
             return -errno;
           return long{room_for_it} - long{size};
         });
         ::unlink(at.sun_path);
         return r;
       });
     }},
    {"an address for a connected Unix socket, and one that is not",
     [] {
       return of_path([](sockaddr_un const& at, int l) {
         auto const* const to = reinterpret_cast<sockaddr const*>(&at);
         return of_pair([&](int a, int) {
           return both({or_errno(::sendto(a, "x", 1, 0, to, sizeof at)),
                        or_errno(::sendto(l, "x", 1, 0, to, sizeof at))});
         });
       });
     }},
    {"a pipe of a size below 0",
     [] { return of_pipe([](int r, int) { return or_errno(::fcntl(r, F_SETPIPE_SZ, -1)); }); }},
    {"options of another protocol, and a byte for a number",
     [] {
       return of_udp([](int fd) {
         int value = 1;
         unsigned char const byte = 7;
         socklen_t size = sizeof value;
         long const wrong =
             both({or_errno(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value)),
                   or_errno(::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value))});
         long const set = both({or_errno(::setsockopt(fd, IPPROTO_IP, IP_TTL, &byte, 0)),
                                or_errno(::setsockopt(fd, IPPROTO_IP, IP_TTL, &byte, 1))});
         (void)::getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &size);
         return wrong + set * 1000 + value;
       });
     }},
    {"a shutdown of nothing, and one that is none",
     [] {
       return of_counter(::socket(AF_UNIX, SOCK_STREAM, 0), [](int fd) {
         return both({or_errno(::shutdown(fd, SHUT_RD)), or_errno(::shutdown(fd, 9))});
       });
     }},
    {"a second shutdown of both ways, while the peer has ended neither",
     [] {
       return of_tcp([](int client, int, int) {
         sockaddr_in name{};
         socklen_t size = sizeof name;
         (void)::shutdown(client, SHUT_RDWR);
         return both({or_errno(::shutdown(client, SHUT_RDWR)),
                      or_errno(::getpeername(client, reinterpret_cast<sockaddr*>(&name), &size))});
       });
     }},
    {"what comes to an end that has shut both ways",
     [] {
       return of_tcp([](int client, int server, int) {
         (void)::shutdown(client, SHUT_RDWR);
         (void)::send(server, room, 1, 0);
         long const reported = both({hung_up(server), hung_up(client)});
         long const first = or_errno(::recv(client, room, 8, 0));
         return reported + both({first, or_errno(::recv(client, room, 8, 0))});
       });
     }},
    {"a reset that MSG_PEEK tells",
     [] {
       return of_reset([](int client) {
         (void)hung_up(client);
         return both({or_errno(::recv(client, room, 8, MSG_PEEK)), or_errno(::recv(client, room, 8, 0))});
       });
     }},
    {"a close that resets what is over",
     [] {
       return of_tcp([](int client, int server, int) {
         linger const none{.l_onoff = 1, .l_linger = 0};
         (void)::setsockopt(server, SOL_SOCKET, SO_LINGER, &none, sizeof none);
         (void)::shutdown(server, SHUT_WR);
         (void)::shutdown(client, SHUT_WR);
         (void)hung_up(server);
         ::close(server);
         return or_errno(::recv(client, room, 8, 0));
       });
     }},
    {"all that poll(2) says of a counter",
     [] {
       return of_counter(::eventfd(1, EFD_NONBLOCK), [](int fd) -> long {
         pollfd p{.fd = fd, .events = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM, .revents = 0};
         return ::poll(&p, 1, 0) < 0 ? -errno : p.revents;
       });
     }},
    {"the name of what could not connect",
     [] {
       return of_refused(0, [](int fd, sockaddr const*) -> long {
         sockaddr_in name{};
         socklen_t size = sizeof name;
         (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
         return (name.sin_port != 0) * 2 + (name.sin_addr.s_addr == 0);
       });
     }},
    {"a ppoll for less than no time", [] { return or_errno(::ppoll(nullptr, 0, &before_all, nullptr)); }},
    {"a pselect for less than no time",
     [] { return or_errno(::pselect(0, nullptr, nullptr, nullptr, &before_all, nullptr)); }},
    {"a select for less than no time",
     [] {
       timeval t{.tv_sec = -1, .tv_usec = 0};
       return or_errno(::select(0, nullptr, nullptr, nullptr, &t));
     }},
    {"an epoll_pwait2 for less than no time",
     [] {
       return of_counter(::epoll_create1(0), [](int fd) {
         epoll_event e{};
         return or_errno(::epoll_pwait2(fd, &e, 1, &before_all, nullptr));
       });
     }},
};

TEST(linked_libc, answers_as_the_kernel_does) {
  for (same_answer const& row : same) {
    long const kernels = row.ask();
    simulation const s(simulation_options::orderly());
    EXPECT_EQ(row.ask(), kernels) << row.of;
  }
}

} // namespace
