// What the tests against the kernel share.
//
//   drive              runs a multiplexer until something is true
//   raw                a descriptor that unio knows nothing of: the other side
//   connection         a unio socket whose peer is raw
//   pending_read       a read of such a socket, which has to wait
//   under_sanitizer    for what takes long

#pragma once

#include "support/isolated.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

#if defined(__has_feature) // clang; g++ says so with a macro of its own
#if __has_feature(thread_sanitizer)
#define UNIO_TEST_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define UNIO_TEST_ADDRESS_SANITIZER 1
#endif
#endif

namespace test {

#if defined(__SANITIZE_THREAD__) || defined(UNIO_TEST_THREAD_SANITIZER)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(UNIO_TEST_ADDRESS_SANITIZER)
inline constexpr bool under_sanitizer = true;
#else
inline constexpr bool under_sanitizer = under_thread_sanitizer;
#endif

/// Runs `m` until `reached()`. False: it was not reached in a long time.
template <class Reached> bool drive(unio::io_multiplexer& m, Reached reached) {
  using namespace std::chrono_literals;
  auto const end = std::chrono::steady_clock::now() + 30s;
  while (!reached()) {
    if (std::chrono::steady_clock::now() > end) return false;
    (void)m.try_run_for(20ms);
  }
  return true;
}

/// Takes the turns in which the driver submits what was started.
inline void submit_all(unio::io_multiplexer& m) {
  for (int i = 0; i < 4; ++i) (void)m.try_run();
}

/// A descriptor used with system calls alone; non-blocking only where said. Closes itself.
class raw {
 public:
  raw() = default;
  explicit raw(int fd) : fd_(fd) {}
  raw(raw&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  raw& operator=(raw&& other) noexcept {
    if (this != &other) close();
    if (this != &other) fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~raw() { close(); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  void write(std::string_view bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      ssize_t const n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        pollfd p{.fd = fd_, .events = POLLOUT, .revents = 0};
        ::poll(&p, 1, 1000);
        continue;
      }
      ASSERT_GT(n, 0) << std::strerror(errno);
      at += static_cast<std::size_t>(n);
    }
  }
  /// What can be read at once, at most `n` bytes. `*ended` is set when the stream has.
  [[nodiscard]] std::string read_some(std::size_t n = 1 << 20, bool* ended = nullptr) const {
    std::string all;
    char piece[65536];
    while (all.size() < n) {
      ssize_t const r = ::recv(fd_, piece, std::min(sizeof piece, n - all.size()), MSG_DONTWAIT);
      if (r < 0 && errno == EINTR) continue;
      if (r == 0 && ended != nullptr) *ended = true;
      if (r <= 0) break;
      all.append(piece, static_cast<std::size_t>(r));
    }
    return all;
  }
  /// Waits for `events` of poll(2). False: they did not come in a long time.
  [[nodiscard]] bool wait(short events = POLLIN) const {
    pollfd p{.fd = fd_, .events = events, .revents = 0};
    int r;
    do r = ::poll(&p, 1, 30'000);
    while (r < 0 && errno == EINTR);
    return r == 1;
  }
  /// True once everything was read and the peer has closed or shut down.
  [[nodiscard]] bool sees_end() const {
    for (;;) {
      if (!wait()) return false;
      char piece[65536];
      ssize_t const r = ::recv(fd_, piece, sizeof piece, MSG_DONTWAIT);
      if (r == 0) return true;
      if (r < 0 && errno != EAGAIN && errno != EINTR) return false;
    }
  }
  /// Closes so that the peer gets a reset instead of the end of the stream.
  void reset_connection() {
    linger const at_once{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close();
  }

 private:
  int fd_ = -1;
};

/// An address of 127.0.0.1.
inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

/// A socket that listens on a free port, and that port.
inline std::pair<raw, std::uint16_t> raw_listener(int backlog = 16) {
  raw s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a = loopback(0);
  socklen_t size = sizeof a;
  EXPECT_EQ(::bind(s.fd(), reinterpret_cast<sockaddr*>(&a), size), 0) << std::strerror(errno);
  EXPECT_EQ(::listen(s.fd(), backlog), 0) << std::strerror(errno);
  EXPECT_EQ(::getsockname(s.fd(), reinterpret_cast<sockaddr*>(&a), &size), 0);
  return {std::move(s), ntohs(a.sin_port)};
}

/// A connected socket, or -1.
inline raw raw_connection(std::uint16_t port, int flags = 0) {
  raw s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  sockaddr_in const a = loopback(port);
  if (::connect(s.fd(), reinterpret_cast<sockaddr const*>(&a), sizeof a) != 0 && errno != EINPROGRESS)
    s.close();
  return s;
}

struct connection {
  unio::socket_handle socket;
  raw peer;
};

/// A connection over TCP and IPv6. Closed where there is none here.
inline connection tcp_ipv6_connection(unio::io_multiplexer* m) {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv6_loopback(0));
  if (!listening) return {};
  connection c{unio::socket_handle::connected_to(listening->local_endpoint().value()).value(), raw()};
  c.peer = raw(::accept4(listening->native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_GE(c.peer.fd(), 0);
  c.socket.set_multiplexer(m);
  return c;
}

/// A connection over TCP.
inline connection tcp_connection(unio::io_multiplexer* m) {
  auto const [listener, port] = raw_listener();
  connection c{unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(port)).value(), raw()};
  c.peer = raw(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_GE(c.peer.fd(), 0);
  c.socket.set_multiplexer(m);
  return c;
}

/// A connection between two Unix sockets. The peer does not block either.
inline connection local_connection(unio::io_multiplexer* m) {
  unio::socket_pair pair = unio::socket_handle::pair().value();
  connection c{std::move(pair.first), raw(pair.second.release())};
  c.socket.set_multiplexer(m);
  return c;
}

/// Calls `f` with a connection of each kind: Unix, TCP over IPv4, and over IPv6 where there is that.
template <class F> void for_each_connection_of(unio::io_multiplexer* m, F f) {
  struct kind {
    char const* name;
    connection (*make)(unio::io_multiplexer*);
  };
  for (kind const& k :
       {kind{"Unix", local_connection}, kind{"IPv4", tcp_connection}, kind{"IPv6", tcp_ipv6_connection}}) {
    SCOPED_TRACE(k.name);
    if (connection c = k.make(m); c.socket.is_open()) f(c);
  }
}

/// The socket of a connection and what is read from it.
struct reading : connection {
  std::array<char, 64> memory{};
};

/// A read of a socket, started, with all that it needs.
struct pending_read : reading, started<unio::async_read> {
  explicit pending_read(unio::io_multiplexer& m, unio::deadline d = {})
      : pending_read(local_connection(&m), d) {}
  explicit pending_read(connection c, unio::deadline d = {})
      : reading{std::move(c)}, started(unio::async_read(socket, unio::mutable_buffer(memory), d)) {}
};

/// A listening socket of unio, and its port.
inline std::pair<unio::listening_socket_handle, std::uint16_t> listener(unio::io_multiplexer* m,
                                                                        int backlog = 256) {
  auto l =
      unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0), {.backlog = backlog}).value();
  l.set_multiplexer(m);
  std::uint16_t const port = l.local_endpoint().value().port();
  return {std::move(l), port};
}

/// Bytes that say where in a stream they are.
inline std::string pattern(std::size_t n, std::size_t from = 0) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i < n; ++i) s[i] = static_cast<char>((from + i) * 2654435761u >> 13);
  return s;
}

/// Fills the way out of a socket. Returns how many bytes it took.
inline std::size_t fill(unio::socket_handle& s, std::size_t from = 0) {
  std::size_t filled = 0;
  for (;;) {
    std::string const piece = pattern(4096, from + filled);
    ssize_t const n = ::send(s.native_handle(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) break;
    filled += static_cast<std::size_t>(n);
  }
  return filled;
}

/// The processor time that this process has used, in seconds.
inline double cpu_seconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

/// While it lives, SIGALRM comes many times in a second, to a handler without SA_RESTART.
class signal_storm {
 public:
  signal_storm() {
    struct sigaction a{};
    a.sa_handler = [](int) { ++count; };
    ::sigaction(SIGALRM, &a, &before_);
    int const interval_us = under_sanitizer ? 500 : 50;
    itimerval const often{.it_interval = {0, interval_us}, .it_value = {0, interval_us}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
  }
  signal_storm(signal_storm const&) = delete;
  signal_storm& operator=(signal_storm const&) = delete;
  ~signal_storm() {
    itimerval const never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  static inline std::atomic<int> count{0}; // lock-free, so that a handler may

 private:
  struct sigaction before_{};
};

} // namespace test
