// Processes to be measured, clients, and what /proc says of the former.

#include "memory.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace memory {

char shared_buffer[shared_buffer_size];

namespace {

using benchmarks::sample;

constexpr std::uint64_t already_there =
    100; // before the first look: what is made for the first of them is not counted
constexpr std::array<std::size_t, 3> buffers = {0, 1024, 4096};
constexpr std::array<std::uint64_t, 2> connections = {500, 10'000};
constexpr std::array<std::uint64_t, 2> coroutines = {10'000, 1'000'000};

[[noreturn]] void fail(std::string const& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// ── a process and its memory ───────────────────────────────────────────────────────────────────────────────

// Allocates nothing, since it may look at its own process.
double private_bytes(pid_t pid) {
  char path[64];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/smaps_rollup", pid).out = '\0';
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path);
  char text[4096];
  std::size_t size = 0;
  for (ssize_t n; size < sizeof text && (n = ::read(fd, text + size, sizeof text - size)) > 0;)
    size += static_cast<std::size_t>(n);
  ::close(fd);
  double kib = 0;
  for (std::string_view const field : {"\nPrivate_Dirty:", "\nSwap:"}) {
    const std::size_t at = std::string_view(text, size).find(field);
    if (at == std::string_view::npos) throw std::runtime_error(fmt::format("{} has no{}", path, field));
    kib += std::strtod(text + at + field.size(), nullptr);
  }
  return kib * 1024;
}

/// A forked process that runs `f(end of a pipe)`; what leaves it as an exception is said by wait_for_word().
class process {
 public:
  template <class F> explicit process(F&& f) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      try {
        f(ends[1]);
        ::_exit(0);
      } catch (std::exception const& e) {
        say(ends[1], fmt::format("!{}", e.what()));
        ::_exit(1);
      }
    }
    ::close(ends[1]);
    from_ = ends[0];
    if (pid_ < 0) {
      ::close(from_);
      fail("fork");
    }
  }
  ~process() {
    ::close(from_);
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  process(process const&) = delete;
  process& operator=(process const&) = delete;

  static void say(int to, std::string const& word) {
    if (::write(to, word.data(), word.size()) < 0) ::_exit(1);
  }
  /// What it says next, in one write; empty if there is nothing in time. Throws what it failed with.
  [[nodiscard]] std::string word(int patience_ms) const {
    pollfd p = {.fd = from_, .events = POLLIN, .revents = 0};
    if (::poll(&p, 1, patience_ms) <= 0) return {};
    char text[512];
    const ssize_t n = ::read(from_, text, sizeof text);
    if (n <= 0) throw std::runtime_error("the process that is measured ended early");
    std::string out(text, static_cast<std::size_t>(n));
    if (out[0] == '!') throw std::runtime_error(out.substr(1));
    return out;
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

// ── connections ────────────────────────────────────────────────────────────────────────────────────────────

// Both processes have as many; a handful is for pipes and the library's own.
void allow_descriptors(std::uint64_t n) {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail("getrlimit");
  const rlim_t wanted = n + 64;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  limit.rlim_max = std::max(limit.rlim_max, wanted); // root may
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw std::runtime_error(fmt::format("{} descriptors are needed: raise 'ulimit -n'", wanted));
}

class clients {
 public:
  explicit clients(std::string const& address) : size_(offsetof(sockaddr_un, sun_path) + 1 + address.size()) {
    to_.sun_family = AF_UNIX;
    std::memcpy(to_.sun_path + 1, address.data(), address.size());
  }
  ~clients() {
    for (const int fd : fds_) ::close(fd);
  }
  clients(clients const&) = delete;
  clients& operator=(clients const&) = delete;

  /// False: nobody listens yet.
  bool connect() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    const timeval patience = {.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(fd, reinterpret_cast<sockaddr const*>(&to_), static_cast<socklen_t>(size_)) != 0) {
      const int error = errno;
      ::close(fd);
      if (error == ECONNREFUSED) return false;
      errno = error;
      fail("connect");
    }
    fds_.push_back(fd);
    return true;
  }
  void connect_to(std::uint64_t n) {
    while (fds_.size() < n)
      if (!connect()) throw std::runtime_error("the server stopped listening");
  }
  /// Each from `first` on sends so many bytes and gets them back.
  void talk(std::size_t first, std::size_t bytes) const {
    std::string text(bytes, 'x');
    std::string room(bytes, '\0');
    for (std::size_t i = first; i < fds_.size(); ++i) {
      text[i % bytes] = static_cast<char>('a' + i % 26);
      if (::send(fds_[i], text.data(), bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes) ||
          ::recv(fds_[i], room.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes) || room != text)
        throw std::runtime_error(fmt::format("connection {} does not echo", i));
    }
  }

 private:
  std::vector<int> fds_;
  sockaddr_un to_ = {};
  std::size_t size_;
};

sample measure_connections(server serve, std::size_t buffer, std::uint64_t n) {
  static unsigned serial = 0;
  allow_descriptors(n + already_there);
  const std::string address = fmt::format("unio-memory-{}-{}", ::getpid(), ++serial);
  const process measured([&](int) {
    serve(address, buffer);
    throw std::runtime_error("the server ended");
  });
  clients them(address);
  for (int i = 0; i < 500 && !them.connect(); ++i) (void)measured.word(10); // five seconds to begin
  // Each has been idle before and is idle again: whatever is made for the first bytes is there. They fill the
  // buffer.
  const std::size_t bytes = buffer != 0 ? buffer : 1024;
  them.connect_to(already_there);
  them.talk(0, bytes);
  const double before = private_bytes(measured.pid());
  them.connect_to(already_there + n);
  them.talk(already_there, bytes);
  const double after = private_bytes(measured.pid());
  them.talk(0, 1); // none was lost meanwhile
  return {.value = (after - before) / static_cast<double>(n),
          .extra = {{"process KiB before", before / 1024}}};
}

// ── coroutines ─────────────────────────────────────────────────────────────────────────────────────────────

sample measure_coroutines(std::unique_ptr<waiting> (*make)(), std::uint64_t n) {
  const process measured([&](int to) {
    const std::unique_ptr<waiting> all = make();
    all->start(already_there);
    const double before = private_bytes(::getpid());
    all->start(n);
    const double after = private_bytes(::getpid());
    if (all->count() != n + already_there)
      throw std::runtime_error(fmt::format("{} wait, not {}", all->count(), n + already_there));
    process::say(to, fmt::format("{} {}", before, after));
    ::_exit(0); // without ending a million
  });
  const std::string word = measured.word(60'000);
  char* end = nullptr;
  const double before = std::strtod(word.c_str(), &end);
  const double after = std::strtod(end, nullptr);
  if (after == 0) throw std::runtime_error("takes more than a minute");
  return {.value = (after - before) / static_cast<double>(n),
          .extra = {{"process KiB before", before / 1024}}};
}

benchmarks::benchmark_case of(std::string const& subject, std::string const& what, std::size_t buffer,
                              std::uint64_t n) {
  return {
      .subject = subject,
      .parameters = {{"of", what}, {"buffer", std::to_string(buffer)}, {"count", std::to_string(n)}},
      .run = nullptr,
      .operations = n,
  };
}

} // namespace

void idle_connections(std::vector<benchmarks::benchmark_case>& to, std::string const& subject, server serve) {
  for (const std::size_t buffer : buffers) {
    for (const std::uint64_t n : connections) {
      to.push_back(of(subject, "idle connection", buffer, n));
      to.back().run = [=](std::uint64_t count) { return measure_connections(serve, buffer, count); };
    }
  }
}

void suspended(std::vector<benchmarks::benchmark_case>& to, std::string const& subject,
               std::string const& what, std::unique_ptr<waiting> (*make)()) {
  for (const std::uint64_t n : coroutines) {
    to.push_back(of(subject, "coroutine, " + what, 0, n));
    to.back().run = [=](std::uint64_t count) { return measure_coroutines(make, count); };
  }
}

} // namespace memory
