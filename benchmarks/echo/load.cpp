// Makes a server work, and says what that cost it: so many connections, each of which sends a message, waits
// for all of the answer, compares it, and sends the next (a closed loop). The answer of an echo server is the
// message; of an HTTP server, what it said first. On a ring of its own,
// because a load generator on epoll needs more of its processor than the server of its own, and is the limit
// sooner.
//
//   echo_load --port P --server-pid PID --connections C --bytes B --warm-up MS --milliseconds MS [--slow MS]
//             [--timer FILE] [--every MS] [--http TARGET] [--calls yes]
//
// --http: asks an HTTP server for this target, always with the same text, and keeps its connections.
// --every: each connection asks that often only, or as soon as it was answered if that took longer. --slow:
// one more connection beside them, which asks every so many milliseconds only and is counted on its own.
// --timer: what the server's timer writes (echo/lateness.hpp); how late it fired in the measured part.
// --calls: counts the server's system calls meanwhile (calls.hpp), which makes it slow; the other figures
// then mean nothing.
//
// Prints one line as support/subject.hpp describes it, a sample or why there is none. The value is requests
// per second of the server's processor time, which is read from its own clock (clock_getcpuclockid(3)) at the
// beginning and the end of the measured part; how much of it was user and how much system time, from
// /proc/PID/stat, which counts in ticks.

#include "echo/calls.hpp"
#include "echo/http_answer.hpp"
#include "echo/lateness.hpp"
#include "support/histogram.hpp"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <queue>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct options {
  std::uint64_t port = 0;
  std::uint64_t server_pid = 0;
  std::uint64_t connections = 1;
  std::uint64_t bytes = 64;
  std::uint64_t warm_up = 100;
  std::uint64_t milliseconds = 1000;
  std::uint64_t every = 0; // 0: each asks again at once
  std::uint64_t slow = 0;  // 0: no slow connection
  std::string timer;       // empty: the server has none
  std::string http;        // empty: it is an echo server
  bool counts_calls = false;
};

constexpr std::uint64_t max_connections = 8192;
constexpr std::uint64_t max_bytes = 65536;
constexpr std::chrono::seconds longest_silence(10);
constexpr double busy_enough =
    97; // percent of a processor: more than this, and the load generator is the limit

[[noreturn]] void fail(char const* call, int error) {
  throw std::system_error(std::abs(error), std::generic_category(), call);
}

int check(char const* call, int r) {
  if (r < 0) fail(call, r);
  return r;
}

// ---- the server's time ------------------------------------------------------------------------------------

struct times {
  double total = 0; // seconds
  double user = 0;
  double system = 0;
};

double seconds(timespec const& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
double seconds(timeval const& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

times times_of(pid_t pid) {
  clockid_t clock;
  if (int const e = ::clock_getcpuclockid(pid, &clock); e != 0) fail("clock_getcpuclockid", e);
  timespec t;
  if (::clock_gettime(clock, &t) != 0) fail("clock_gettime", errno);

  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  // Fields 14 and 15 (proc_pid_stat(5)); the second is a name in parentheses that may contain anything.
  std::size_t at = text.rfind(')');
  for (int field = 2; field != 14 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  unsigned long user = 0;
  unsigned long system = 0;
  if (at == std::string::npos || std::sscanf(text.c_str() + at, "%lu %lu", &user, &system) != 2)
    throw std::runtime_error("/proc/" + std::to_string(pid) + "/stat is not understood");
  auto const tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {.total = seconds(t),
          .user = static_cast<double>(user) / tick,
          .system = static_cast<double>(system) / tick};
}

double own_time() {
  rusage r;
  if (::getrusage(RUSAGE_SELF, &r) != 0) fail("getrusage", errno);
  return seconds(r.ru_utime) + seconds(r.ru_stime);
}

// ---- the load ---------------------------------------------------------------------------------------------

struct connection {
  int fd = -1;
  milliseconds every{0};      // 0: asks again at once
  clock_type::time_point due; // when it asks next, if it waits for that
  bool is_asking = false;
  std::size_t arrived = 0; // bytes of the answer
  std::uint64_t number = 0;
  std::uint64_t answers = 0; // in the measured part
  clock_type::time_point asked;
  char* message = nullptr;
};

class load {
 public:
  explicit load(options const& o) : bytes_(o.bytes), busy_(o.connections) {
    if (!o.http.empty()) {
      request_ = fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", o.http);
      learn_answer(static_cast<std::uint16_t>(o.port));
    }
    open_ring();
    std::size_t const all = busy_ + (o.slow != 0 ? 1 : 0);
    messages_.resize(all * bytes_);
    connections_.resize(all);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      connection& c = connections_[i];
      c.message = messages_.data() + i * bytes_;
      for (std::size_t b = 0; b < bytes_; ++b)
        c.message[b] = request_.empty() ? static_cast<char>(i * 7 + b * 13) : request_[b];
      c.fd = connect_to(static_cast<std::uint16_t>(o.port));
      receive(i);
    }
    clock_type::time_point const now = clock_type::now();
    last_answer_ = now;
    for (std::size_t i = 0; i < all; ++i) {
      connection& c = connections_[i];
      c.every = milliseconds(i < busy_ ? o.every : o.slow);
      c.due = now + std::chrono::nanoseconds(c.every) * i / all; // not all at once
      if (c.every.count() == 0) {
        ask(i, now);
      } else {
        waiting_.push({c.due, i});
      }
    }
    if (o.every != 0) of_each_.resize(busy_);
  }
  load(load const&) = delete;
  load& operator=(load const&) = delete;
  ~load() {
    for (connection const& c : connections_)
      if (c.fd >= 0) ::close(c.fd);
    io_uring_queue_exit(&ring_);
  }

  // Goes on until then. What it counted before is forgotten.
  void run_until(clock_type::time_point end) {
    for (connection& c : connections_) c.answers = 0;
    latencies_ = std::make_unique<benchmarks::histogram>();
    slow_latencies_ = std::make_unique<benchmarks::histogram>();
    std::ranges::fill(of_each_, benchmarks::histogram());
    clock_type::time_point now = clock_type::now();
    while (now < end) now = turn(now);
    // A request that has no answer yet has waited as long as that at least. Of those that ask again at once
    // it is one among very many.
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (connections_[i].every.count() != 0 && connections_[i].is_asking) note(i, now);
  }

  [[nodiscard]] std::uint64_t answers() const { return latencies_->total(); }
  [[nodiscard]] std::uint64_t fewest() const { return std::ranges::min(answers_of_each()); }
  [[nodiscard]] std::uint64_t most() const { return std::ranges::max(answers_of_each()); }
  /// With --every: the largest p99 of a connection.
  [[nodiscard]] double worst_p99_ns() const {
    double worst = 0;
    for (benchmarks::histogram const& h : of_each_) worst = std::max(worst, h.percentile_ns(99));
    return worst;
  }
  [[nodiscard]] benchmarks::histogram const& latencies() const { return *latencies_; }
  [[nodiscard]] benchmarks::histogram const& slow_latencies() const { return *slow_latencies_; }

 private:
  static constexpr unsigned buffers = 1024;
  static constexpr unsigned buffer_size = 8192;
  static constexpr int group = 0;
  static constexpr std::uint64_t tag_sent = std::uint64_t{1} << 32;

  static std::uint64_t nanoseconds_between(clock_type::time_point a, clock_type::time_point b) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(b - a).count());
  }

  // Of the busy ones.
  [[nodiscard]] std::vector<std::uint64_t> answers_of_each() const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < busy_; ++i) all.push_back(connections_[i].answers);
    return all;
  }

  void open_ring() {
    io_uring_params p{};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
              IORING_SETUP_CQSIZE;
    p.cq_entries = 16384;
    check("io_uring_setup", io_uring_queue_init_params(4096, &ring_, &p));
    check("io_uring_register_ring_fd", io_uring_register_ring_fd(&ring_));
    std::size_t const size = buffers * sizeof(io_uring_buf);
    offered_ = static_cast<io_uring_buf_ring*>(std::aligned_alloc(4096, size));
    if (offered_ == nullptr) fail("aligned_alloc", ENOMEM);
    io_uring_buf_reg what{};
    what.ring_addr = reinterpret_cast<std::uintptr_t>(offered_);
    what.ring_entries = buffers;
    what.bgid = group;
    check("io_uring_register_buf_ring", io_uring_register_buf_ring(&ring_, &what, 0));
    io_uring_buf_ring_init(offered_);
    memory_.resize(std::size_t{buffers} * buffer_size);
    for (unsigned b = 0; b < buffers; ++b) give_back(b);
  }

  static int connect_to(std::uint16_t port) {
    int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket", errno);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) fail("connect", errno);
    int const on = 1;
    if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("setsockopt", errno);
    return fd;
  }

  // Asks once, before all others.
  void learn_answer(std::uint16_t port) {
    bytes_ = request_.size();
    int const fd = connect_to(port);
    if (::send(fd, request_.data(), request_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request_.size()))
      fail("send", errno);
    for (std::size_t wanted = 0; wanted == 0 || answer_.size() < wanted;) {
      char part[buffer_size];
      ssize_t const n = ::recv(fd, part, sizeof part, 0);
      if (n < 0) fail("recv", errno);
      if (n == 0) throw std::runtime_error("the server closed a connection before it had answered");
      answer_.append(part, static_cast<std::size_t>(n));
      wanted = benchmarks::size_of_http_answer(answer_);
      if (answer_.size() > max_bytes) throw std::runtime_error("the answer has no end");
    }
    ::close(fd);
  }
  [[nodiscard]] std::string_view answer_to(connection const& c) const {
    return answer_.empty() ? std::string_view(c.message, bytes_) : answer_;
  }

  io_uring_sqe* entry() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
      submit(0);
      sqe = io_uring_get_sqe(&ring_);
    }
    return sqe;
  }

  void submit(unsigned wait_for) {
    int const r = io_uring_submit_and_wait(&ring_, wait_for);
    if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) fail("io_uring_enter", r);
  }

  void give_back(unsigned b) {
    io_uring_buf_ring_add(offered_, memory_.data() + std::size_t{b} * buffer_size, buffer_size,
                          static_cast<unsigned short>(b), io_uring_buf_ring_mask(buffers), 0);
    io_uring_buf_ring_advance(offered_, 1);
  }

  void receive(std::size_t i) {
    io_uring_sqe* const sqe = entry();
    io_uring_prep_recv_multishot(sqe, connections_[i].fd, nullptr, 0, 0);
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = group;
    io_uring_sqe_set_data64(sqe, i);
  }

  // A completion says only what went wrong. Each message differs from the one before.
  void ask(std::size_t i, clock_type::time_point now) {
    connection& c = connections_[i];
    ++c.number;
    if (answer_.empty()) std::memcpy(c.message, &c.number, std::min(sizeof c.number, bytes_));
    c.arrived = 0;
    c.asked = now;
    c.is_asking = true;
    c.due = std::max(c.due + c.every, now);
    io_uring_sqe* const sqe = entry();
    io_uring_prep_send(sqe, c.fd, c.message, bytes_, MSG_NOSIGNAL | MSG_WAITALL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, i | tag_sent);
  }

  void note(std::size_t i, clock_type::time_point now) {
    std::uint64_t const ns = nanoseconds_between(connections_[i].asked, now);
    (i < busy_ ? latencies_ : slow_latencies_)->add(ns);
    if (i < of_each_.size()) of_each_[i].add(ns);
  }

  clock_type::time_point turn(clock_type::time_point now) {
    for (; !waiting_.empty() && waiting_.top().due <= now; waiting_.pop())
      ask(waiting_.top().connection, now);
    // A server that stops answering must not stop the measurement: then this says so.
    clock_type::time_point until = last_answer_ + longest_silence;
    if (now >= until) throw std::runtime_error("no answer within ten seconds");
    if (!waiting_.empty()) until = std::min(until, waiting_.top().due);
    auto const left = static_cast<long long>(nanoseconds_between(now, std::max(until, now)));
    __kernel_timespec patience{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    io_uring_cqe* cqe = nullptr;
    int const r = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &patience, nullptr);
    if (r < 0 && r != -ETIME && r != -EINTR && r != -EAGAIN && r != -EBUSY) fail("io_uring_enter", r);
    now = clock_type::now();
    unsigned head = 0;
    unsigned n = 0;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      ++n;
      if ((cqe->user_data & tag_sent) != 0) fail("send", cqe->res);
      now = answered(cqe->user_data, cqe->res, cqe->flags);
    }
    io_uring_cq_advance(&ring_, n);
    return now;
  }

  clock_type::time_point answered(std::size_t i, int n, unsigned flags) {
    clock_type::time_point const now = clock_type::now();
    connection& c = connections_[i];
    if (n == 0) throw std::runtime_error("the server closed a connection");
    if (n < 0 && n != -ENOBUFS) fail("recv", n);
    if (n > 0) {
      unsigned const b = flags >> IORING_CQE_BUFFER_SHIFT;
      auto const bytes = static_cast<std::size_t>(n);
      std::string_view const rest = answer_to(c).substr(c.arrived);
      if (bytes > rest.size()) throw std::runtime_error("more came back than was wanted");
      if (std::memcmp(rest.data(), memory_.data() + std::size_t{b} * buffer_size, bytes) != 0)
        throw std::runtime_error("something else came back than was wanted");
      give_back(b);
      c.arrived += bytes;
    }
    if ((flags & IORING_CQE_F_MORE) == 0) receive(i);
    if (n > 0 && c.arrived == answer_to(c).size()) {
      ++c.answers;
      last_answer_ = now;
      note(i, now);
      c.is_asking = false;
      if (c.every.count() == 0) {
        ask(i, now);
      } else {
        waiting_.push({c.due, i});
      }
    }
    return now;
  }

  std::size_t bytes_;   // of a message
  std::string request_; // with --http: the message, and what comes back
  std::string answer_;
  io_uring ring_{};
  io_uring_buf_ring* offered_ = nullptr; // until the program ends: the kernel may still look at it
  std::vector<char> memory_;
  std::vector<char> messages_;
  std::vector<connection> connections_; // the busy ones, and then, perhaps, the slow one
  std::size_t busy_;
  struct waiting {
    clock_type::time_point due;
    std::size_t connection;
    bool operator<(waiting const& other) const noexcept { return due > other.due; } // the first one on top
  };
  std::priority_queue<waiting> waiting_; // connections that do not ask at once
  clock_type::time_point last_answer_;
  std::unique_ptr<benchmarks::histogram> latencies_ = std::make_unique<benchmarks::histogram>();
  std::unique_ptr<benchmarks::histogram> slow_latencies_ = std::make_unique<benchmarks::histogram>();
  std::vector<benchmarks::histogram> of_each_; // with --every
};

// ---- the command line -------------------------------------------------------------------------------------

options options_from(int argc, char** argv) {
  options o;
  struct known {
    std::string_view name;
    std::uint64_t& value;
    std::uint64_t least;
    std::uint64_t most;
  };
  known const all[] = {{"--port", o.port, 1, 65535},
                       {"--server-pid", o.server_pid, 1, 1u << 30},
                       {"--connections", o.connections, 1, max_connections},
                       {"--bytes", o.bytes, 1, max_bytes},
                       {"--warm-up", o.warm_up, 0, 3'600'000},
                       {"--milliseconds", o.milliseconds, 1, 3'600'000},
                       {"--every", o.every, 1, 1000},
                       {"--slow", o.slow, 1, 3'600'000}};
  for (int i = 1; i < argc; i += 2) {
    bool found = false;
    std::string_view const name(argv[i]);
    if (name == "--calls") o.counts_calls = true;
    if (name == "--timer" && i + 1 < argc) o.timer = argv[i + 1];
    if (name == "--http" && i + 1 < argc) o.http = argv[i + 1];
    if (name == "--timer" || name == "--http" || name == "--calls") continue;
    for (known const& k : all) {
      if (k.name != argv[i]) continue;
      found = true;
      std::string_view const text = i + 1 < argc ? argv[i + 1] : "";
      auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), k.value);
      if (error != std::errc() || end != text.data() + text.size() || k.value < k.least || k.value > k.most)
        throw std::invalid_argument(
            fmt::format("{} takes a number from {} to {}, not '{}'", k.name, k.least, k.most, text));
    }
    if (!found) throw std::invalid_argument(fmt::format("no option {}", argv[i]));
  }
  if (o.port == 0 || o.server_pid == 0) throw std::invalid_argument("--port and --server-pid are needed");
  return o;
}

benchmarks::histogram lateness_in(std::string const& file, clock_type::time_point begin,
                                  clock_type::time_point end) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("what the server's timer writes cannot be read: " + file);
  auto const ns = [](clock_type::time_point t) {
    return std::chrono::nanoseconds(t.time_since_epoch()).count();
  };
  return benchmarks::timer_lateness(in, ns(begin), ns(end));
}

void measure(options const& o) {
  auto const pid = static_cast<pid_t>(o.server_pid);
  load l(o);
  l.run_until(clock_type::now() + milliseconds(o.warm_up));
  std::optional<benchmarks::counted_calls> calls;
  if (o.counts_calls) calls.emplace(pid);
  auto const begin = clock_type::now();
  double const own_before = own_time();
  times const before = times_of(pid);
  l.run_until(begin + milliseconds(o.milliseconds));
  std::uint64_t const called = calls ? calls->end() : 0;
  times const after = times_of(pid);
  double const own = own_time() - own_before;
  auto const end = clock_type::now();
  double const elapsed = std::chrono::duration<double>(end - begin).count();
  std::optional<benchmarks::histogram> late;
  if (!o.timer.empty()) late = lateness_in(o.timer, begin, end);

  auto const requests = static_cast<double>(l.answers());
  double const server = after.total - before.total;
  if (requests == 0 || server <= 0) throw std::runtime_error("no request was answered in time");
  double const user = after.user - before.user;
  double const system = after.system - before.system;
  double const ticks = user + system;
  double const busy = own / elapsed * 100;
  auto const percentile = [&](double p) { return l.latencies().percentile_ns(p) / 1000; };
  fmt::print(
      "sample\t{}\t{}\trequests/s={}\tserver µs per request={}\tp50 µs={}\tp99 µs={}\tp99.9 µs={}\t"
      "fewest={}\tmost={}\tuser %={}\tsystem %={}\tload CPU %={}\tload is the limit={}",
      elapsed * 1e9, requests / server, requests / elapsed, server / requests * 1e6, percentile(50),
      percentile(99), percentile(99.9), l.fewest(), l.most(), ticks > 0 ? user / ticks * 100 : 0,
      ticks > 0 ? system / ticks * 100 : 0, busy, busy >= busy_enough ? 1 : 0);
  if (late)
    fmt::print("\ttimer p50 µs={}\ttimer p99.9 µs={}", late->percentile_ns(50) / 1000,
               late->percentile_ns(99.9) / 1000);
  if (o.every != 0)
    fmt::print("\tmax µs={}\tworst connection's p99 µs={}",
               static_cast<double>(l.latencies().largest_ns()) / 1000, l.worst_p99_ns() / 1000);
  if (calls) fmt::print("\tsystem calls={}", static_cast<double>(called) / requests);
  if (o.slow != 0) fmt::print("\tslow p99 µs={}", l.slow_latencies().percentile_ns(99) / 1000);
  fmt::print("\n");
}

} // namespace

int main(int argc, char** argv) {
  try {
    measure(options_from(argc, argv));
    return 0;
  } catch (std::invalid_argument const& e) {
    fmt::print(stderr, "echo_load: {}\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    fmt::print("failed\t{}\n", e.what());
    return 1;
  }
}
