// failing_compositions: a program of its own, because it replaces operator new. For each operation that is
// made of others, and for every n: its n-th allocation fails once. Then the operation ends, with a result, an
// error or std::bad_alloc. It leaves no descriptor open, nothing in flight and no lock held: the same
// operation succeeds afterwards on the same objects.
//
// Usage: failing_compositions [ROW]. Exit status: 0 all is well; otherwise 1, and what was not is printed.
// The row "canary" waits for ever after a failure, which must be found. With UNIO_DRIVER as ever.

#include "support/failing_allocations.hpp"
#include "support/temporary_directory.hpp"

#include <unio/async_generator.hpp>
#include <unio/buffered_stream.hpp>
#include <unio/callback.hpp>
#include <unio/connect_any.hpp>
#include <unio/fs/compare.hpp>
#include <unio/fs/copy.hpp>
#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>
#include <unio/link.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/update_files.hpp>
#include <unio/receiving.hpp>
#include <unio/strand.hpp>
#include <unio/unio.hpp>

#ifdef UNIO_TESTS_NAMES
#include "net/one_port.hpp"

#include <unio/connect_to.hpp>
#endif
#ifdef UNIO_TESTS_TLS
#include "tls/certificates.hpp"

#include <unio/tls.hpp>
#endif

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace unio;

bool wrong = false;
char const* row_name = "";
long nth = 0;

void say(char const* what) noexcept { std::printf("%s: allocation %ld fails: %s\n", row_name, nth, what); }

// One that has not ended is killed.
constexpr std::chrono::seconds soon = 20s; // the deadline of every operation
unsigned patience_s = 60;

[[noreturn]] void give_up(char const* what) noexcept {
  char text[200];
  int const n = std::snprintf(text, sizeof(text), "%s: allocation %ld fails: %s\n", row_name, nth, what);
  (void)!::write(STDOUT_FILENO, text, static_cast<std::size_t>(n));
  ::_exit(1);
}

int open_descriptors() {
  DIR* const all = ::opendir("/proc/self/fd");
  int n = 0;
  while (::readdir(all) != nullptr) ++n;
  ::closedir(all);
  return n;
}

// Threads of the library end when they are idle, and close what is theirs.
bool opens_no_more_than(int before) {
  for (int i = 0; i != 1000; ++i) {
    if (open_descriptors() <= before) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

// Plays a row. It is kept for all rounds, so that what a failure leaves behind is met by the next one.
template <class Row> void play(char const* name) {
  row_name = name;
  nth = 0;
  ::alarm(patience_s);
  Row row;
  auto const expect = [](bool claim, char const* what) {
    if (claim) return;
    say(what);
    wrong = true;
  };
  for (int i = 0; i != 3; ++i) expect(row.play(), "it fails although nothing else does");
  int const descriptors = open_descriptors();
  for (nth = 1; !wrong && nth != 5000; ++nth) {
    ::alarm(patience_s);
    frame_pool::trim(); // nothing is in stock
    failed = 0;
    allocations = 0;
    may_throw = true;
    fails_at = nth;
    try {
      (void)row.play();
    } catch (std::bad_alloc const&) {
    } catch (std::system_error const& e) {
      fails_at = -1;
      expect(e.code() == std::errc::not_enough_memory, "another exception than for want of memory");
    }
    fails_at = -1;
    bool const was_last = failed == 0;
    auto const counted = this_thread::multiplexer().counters();
    expect(counted.started == counted.finished, "something is in flight");
    expect(row.play(), "the next one fails");
    expect(opens_no_more_than(descriptors), "a descriptor stays open");
    if (was_last) break;
  }
  expect(nth > 1, "the canary: it allocates nothing");
  std::printf("%s: %ld allocations, each failed once\n", name, nth - 1);
  std::fflush(stdout);
}

// Allocations of the row's own do not fail.
struct sparing {
  sparing() noexcept { spared = true; }
  ~sparing() { spared = false; }
};

// ── what is composed ───────────────────────────────────────────────────────────────────────────────────────

task<int> nested(int depth) {
  if (depth == 0) co_return (co_await co_no_op()).has_value() ? 1 : 0;
  co_return co_await nested(depth - 1);
}
task<result<int>> fallible() { co_return co_await nested(1); }
task<int> patient(event& e) { co_return (co_await timeout(soon, e.co_wait())).has_value() ? 1 : 0; }

struct canary {
  event ended;
  task<int> work() {
    int const n = co_await nested(2);
    ended.set();
    co_return n;
  }
  // Where work() throws, that is no success for when_any(), and the other one waits for ever.
  bool play() {
    ended.reset();
    auto const both = [](canary& self) -> task<bool> {
      (void)co_await when_any(self.work(), self.ended.co_wait());
      co_return true;
    };
    return run(both(*this));
  }
};

struct tasks_side_by_side {
  static task<int> all() {
    auto const [a, b] = co_await when_all(nested(0), nested(2));
    auto const outcomes = co_await when_all_outcomes(nested(0), nested(1));
    auto const good = co_await when_all_succeed(fallible(), fallible());
    auto const first = co_await when_any(nested(1), nested(2));
    std::vector<task<int>> many;
    for (int i = 0; i != 3; ++i) many.push_back(nested(i));
    int sum = 0;
    for (int const n : co_await when_all(many)) sum += n;
    co_return a + b + std::get<0>(outcomes).value_or(0) + (good.has_value() ? 1 : 0) +
        std::get<0>(first.outcomes).value_or(0) + sum;
  }
  bool play() { return run(all()) >= 7; }
};

struct one_is_late {
  static task<bool> all() {
    event never;
    bool const is_late = (co_await timeout(1ms, never.co_wait())).error() == condition::timed_out;
    bool const is_in_time = (co_await timeout(soon, nested(2))).has_value();
    co_return is_late&& is_in_time;
  }
  bool play() { return run(all()); }
};

struct group {
  static task<bool> all() {
    event go;
    int ends = 0;
    task_group g(co_await this_coro::environment);
    for (int i = 0; i != 3; ++i) g.start(patient(go));
    g.start(nested(1), [&ends](task_outcome<int> o) { ends += o.value_or(0); });
    go.set();
    co_return (co_await g.co_join()).has_value() && ends == 1;
  }
  bool play() { return run(all()); }
};

struct other_threads {
  thread_pool pool{2};
  static task<bool> all(thread_pool& pool) {
    int const there = co_await run_on(pool.executor(), nested(2));
    strand s{pool.executor()};
    int const in_turns = co_await run_on(s, nested(1));
    co_return there == 1 && in_turns == 1;
  }
  bool play() { return run(all(pool)) && sync_wait(pool.executor(), nested(2)) == 1; }
};

struct started_alone {
  bool play() {
    std::optional<task_outcome<int>> outcome;
    async_run(this_thread::multiplexer(), nested(2), [&](task_outcome<int> o) { outcome = std::move(o); });
    while (!outcome) (void)this_thread::multiplexer().run();
    return outcome->value_or(0) == 1;
  }
};

// Destroyed at any point, also where it could not be started.
struct connected_task {
  struct receiver {
    result<int>* into;
    void set_value(result<int>&& r) noexcept { *into = std::move(r); }
    void set_done() noexcept {}
  };
  static task<result<int>> job() { co_return co_await nested(2); }
  bool play() {
    result<int> told = 0;
    {
      auto destroyed = unio::connect(async_task<result<int>>(job()), receiver{&told});
      destroyed.start();
    }
    auto op = unio::connect(async_task<result<int>>(job()), receiver{&told});
    op.start();
    while (op.poll() != io_status::completed) continue;
    return told.value_or(0) == 1;
  }
};

struct values_passed_on {
  static task<int> sends(channel<int>& c) {
    for (int i = 0; i != 4; ++i)
      if (!(co_await timeout(soon, c.co_send(i))).has_value()) break;
    c.close();
    co_return 1;
  }
  static async_generator<int> received(channel<int>& c) {
    for (;;) {
      result<int> const got = co_await timeout(soon, c.co_receive());
      if (!got.has_value()) co_return;
      co_yield *got;
    }
  }
  static task<int> adds(channel<int>& c) {
    async_generator<int> all = received(c);
    int sum = 0;
    while (int const* const n = co_await all.co_next()) sum += *n;
    co_return sum;
  }
  static task<bool> both() {
    channel<int> c(1);
    auto const [sent, sum] = co_await when_all(sends(c), adds(c));
    co_return sent == 1 && sum == 6;
  }
  bool play() { return run(both()); }
};

struct held_in_turns {
  async_mutex one;
  semaphore two{2};
  task<int> holds(rendezvous<>& all) {
    auto const locked = co_await timeout(soon, one.co_lock());
    if (!locked.has_value()) co_return 0;
    if (!(co_await timeout(soon, two.co_acquire())).has_value()) co_return 0;
    co_await co_yield_now();
    two.release();
    (void)all;
    co_return 1;
  }
  task<bool> both() {
    rendezvous<> all(2);
    auto const [a, b] = co_await when_all(holds(all), holds(all));
    co_return a == 1 && b == 1;
  }
  bool play() { return run(both()) && static_cast<bool>(one.try_lock()); }
};

// ── streams ────────────────────────────────────────────────────────────────────────────────────────────────

constexpr std::string_view some_text = "one line\nand another\n\nthe rest";

task<bool> sends_some_text(socket_handle end) {
  socket_handle to = std::move(end); // closed with this scope: a parameter lives as long as the frame
  io_result<const_buffers> const r =
      co_await co_write(to, const_buffer(some_text.data(), some_text.size()), soon);
  co_return r.has_value();
}

struct whole_transfers {
  static task<bool> reads(socket_handle from) {
    std::string text;
    auto const head = co_await co_read_until(from, text, "\n", soon);
    auto const rest = co_await co_read_all(from, text, 1 << 20, soon);
    co_return head.has_value() && rest.has_value() && text == some_text;
  }
  static task<bool> both() {
    socket_pair ends = socket_handle::pair().value();
    auto const [sent, read] =
        co_await when_all(sends_some_text(std::move(ends.first)), reads(std::move(ends.second)));
    co_return sent&& read;
  }
  bool play() { return run(both()); }
};

// A stream that is no handle: each of its transfers is a task.
struct somebody_elses {
  socket_handle& s;
  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> r, deadline d = {}) {
    co_return co_await s.co_read(r, d);
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> r, deadline d = {}) {
    co_return co_await s.co_write(r, d);
  }
};

struct buffered_lines {
  static task<bool> reads(socket_handle from) {
    somebody_elses stream{from};
    std::array<std::byte, 64> memory;
    buffered_reader in(stream, memory);
    int lines = 0;
    for (;;) {
      if (!co_await in.co_read_line(soon)) break;
      ++lines;
    }
    co_return lines == 4;
  }
  static task<bool> writes(socket_handle end) {
    socket_handle to = std::move(end);
    somebody_elses stream{to};
    std::array<std::byte, 8> memory;
    buffered_writer out(stream, memory);
    bool const sent =
        (co_await co_write(out, const_buffer(some_text.data(), some_text.size()), soon)).has_value();
    co_return sent && (co_await out.co_flush(soon)).has_value();
  }
  static task<bool> both() {
    socket_pair ends = socket_handle::pair().value();
    auto const [sent, read] = co_await when_all(writes(std::move(ends.first)), reads(std::move(ends.second)));
    co_return sent&& read;
  }
  bool play() { return run(both()); }
};

// With blocks, and spliced.
struct copies {
  static task<bool> passes_on(socket_handle from, socket_handle end) {
    socket_handle to = std::move(end);
    somebody_elses stream{from};
    auto const n = co_await co_copy(stream, to, unlimited, soon);
    co_return n.has_value() && *n == some_text.size();
  }
  static task<bool> into_pipe(socket_handle from) {
    anonymous_pipe pipe = pipe_handle::anonymous().value();
    auto const n = co_await co_copy(from, pipe.writer, unlimited, soon);
    co_return n.has_value() && *n == some_text.size();
  }
  static task<bool> all() {
    socket_pair first = socket_handle::pair().value(), second = socket_handle::pair().value();
    auto const [a, b, c] = co_await when_all(sends_some_text(std::move(first.first)),
                                             passes_on(std::move(first.second), std::move(second.first)),
                                             into_pipe(std::move(second.second)));
    co_return a&& b&& c;
  }
  static constexpr extent_type unlimited = 1 << 20;
  bool play() { return run(all()); }
};

struct receives {
  buffer_pool pool{4, 16};
  static task<bool> takes(socket_handle from, buffer_pool& pool) {
    receiving in(from, pool);
    std::size_t n = 0;
    while (lent_buffer* const next = co_await in.co_next(soon)) n += next->size();
    co_return n == some_text.size();
  }
  static task<bool> both(buffer_pool& pool) {
    socket_pair ends = socket_handle::pair().value();
    auto const [sent, read] =
        co_await when_all(sends_some_text(std::move(ends.first)), takes(std::move(ends.second), pool));
    co_return sent&& read;
  }
  bool play() { return run(both(pool)) && pool.lent() == 0; }
};

struct chains_and_handlers {
  static task<bool> chained() {
    socket_pair ends = socket_handle::pair().value();
    char text[4] = {};
    auto const [put, got] = co_await co_link(deadline(soon), async_write(ends.first, const_buffer("abc", 3)),
                                             async_read(ends.second, mutable_buffer(text, 3)));
    co_return put.has_value() && got.has_value();
  }
  bool play() {
    std::optional<std::error_code> told;
    unio::start(async_no_op(&this_thread::multiplexer()), [&](auto&& r) { told = r.error(); });
    while (!told) (void)this_thread::multiplexer().run();
    return !*told && run(chained());
  }
};

// ── connections ────────────────────────────────────────────────────────────────────────────────────────────

listening_socket_handle listening() {
  return listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
}

struct accepts {
  listening_socket_handle listener = listening();
  endpoint at = listener.local_endpoint().value();
  task<int> serves() {
    int n = 0;
    stop_source enough;
    task_group g(co_await this_coro::environment);
    auto const serve = [&](socket_handle s) {
      g.start(sends_some_text(std::move(s)));
      if (++n == 2) g.request_stop();
    };
    auto const accepting = [&]() -> task<> {
      (void)co_await timeout(soon, co_for_each_connection(listener, serve));
    };
    g.start(accepting());
    (void)co_await g.co_join();
    co_return n;
  }
  task<int> asks() {
    int n = 0;
    for (int i = 0; i != 2; ++i) {
      auto const s = co_await co_connect_any(std::span(&at, 1), soon);
      n += s.has_value() ? 1 : 0;
    }
    co_return n;
  }
  bool play() {
    // A failure may leave a connection in the queue.
    while (listener.try_accept().has_value()) continue;
    auto const both = [](accepts& self) -> task<bool> {
      auto const all = co_await timeout(soon, when_all(self.serves(), self.asks()));
      co_return all.has_value() && std::get<1>(*all) == 2;
    };
    return run(both(*this));
  }
};

struct races_connections {
  listening_socket_handle listener = listening();
  endpoint to[3] = {listening().local_endpoint().value(), listening().local_endpoint().value(),
                    listener.local_endpoint().value()};
  bool play() {
    while (listener.try_accept().has_value()) continue;
    std::vector<connect_attempt> attempts;
    std::string why;
    auto const all = run(co_connect_any(to, soon, {.attempts = &attempts, .why = &why}));
    auto const none = run(co_connect_any(std::span(to, 2), soon, {.why = &why}));
    return all.has_value() && attempts.size() == 3 && !none.has_value() && !why.empty();
  }
};

#ifdef UNIO_TESTS_NAMES

// A name server that allocates nothing. By UDP it says that the answer is cut if the name begins with 't'.
class plain_name_server : public test::sockets_of_one_port {
 public:
  plain_name_server() {
    if (::pipe(ends_) != 0) std::abort();
    thread_ = std::thread([this] {
      spared = true;
      serve();
    });
  }
  plain_name_server(plain_name_server const&) = delete;
  plain_name_server& operator=(plain_name_server const&) = delete;
  ~plain_name_server() {
    ::close(ends_[1]);
    thread_.join();
    ::close(ends_[0]);
  }

 private:
  // Appends the record that the question asks for, if there is one.
  static std::size_t answer(unsigned char* m, std::size_t n, bool by_tcp) {
    if (n < 17) return 0;
    std::size_t end = 12;
    while (end < n && m[end] != 0) end += 1 + m[end];
    if (end + 5 > n) return 0;
    unsigned const type = m[end + 2];
    n = end + 5;
    m[2] = 0x81;
    m[3] = 0x80;
    std::memset(m + 6, 0, 6);
    if (!by_tcp && m[13] == 't') {
      m[2] |= 2;
      return n;
    }
    auto const add = [&](std::string_view data) {
      m[7] = 1;
      unsigned char const head[] = {0xc0, 12, 0, static_cast<unsigned char>(type),       0, 1, 0, 0,
                                    0,    60, 0, static_cast<unsigned char>(data.size())};
      std::memcpy(m + n, head, sizeof(head));
      std::memcpy(m + n + sizeof(head), data.data(), data.size());
      n += sizeof(head) + data.size();
    };
    if (type == 1) add(std::string_view("\x7f\0\0\x01", 4));
    if (type == 12)
      add(
          std::string_view("\x01"
                           "h\x04"
                           "test",
                           8));
    if (type == 16) add("\x04text");
    if (type == 33)
      add(
          std::string_view("\0\x01\0\x01\0\x50\x01"
                           "h\x04"
                           "test",
                           14));
    return n;
  }
  void serve() {
    unsigned char m[4096];
    for (;;) {
      pollfd all[] = {{udp_, POLLIN, 0}, {tcp_, POLLIN, 0}, {ends_[0], POLLIN, 0}};
      (void)::poll(all, 3, -1);
      if (all[2].revents != 0) return;
      if (all[0].revents != 0) {
        sockaddr_in from{};
        unsigned size = sizeof(from);
        auto* const name = reinterpret_cast<sockaddr*>(&from);
        ssize_t const n = ::recvfrom(udp_, m, sizeof(m) / 2, MSG_DONTWAIT, name, &size);
        if (n > 0)
          (void)::sendto(udp_, m, answer(m, static_cast<std::size_t>(n), false), MSG_NOSIGNAL, name, size);
      }
      if (all[1].revents != 0) {
        int const c = ::accept4(tcp_, nullptr, nullptr, SOCK_CLOEXEC);
        timeval const patience{.tv_sec = 5, .tv_usec = 0};
        (void)::setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        ssize_t n = ::recv(c, m, 2, MSG_WAITALL);
        if (n == 2) n = ::recv(c, m + 2, std::min<std::size_t>(m[1], sizeof(m) / 2), MSG_WAITALL);
        if (n > 0) {
          std::size_t const out = answer(m + 2, static_cast<std::size_t>(n), true);
          m[0] = static_cast<unsigned char>(out >> 8);
          m[1] = static_cast<unsigned char>(out);
          (void)::send(c, m, out + 2, MSG_NOSIGNAL);
        }
        ::close(c);
      }
    }
  }
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

struct asked_by_name {
  test::temporary_directory folder;
  plain_name_server server;
  resolver names{options()};
  resolver_options options() {
    folder.write("hosts", "192.0.2.1 here.test\n");
    resolver_options o;
    o.way = resolve_way::direct;
    o.servers = {server.at};
    o.search = {"corp.test"};
    o.resolv_conf = folder / "resolv.conf";
    o.nsswitch_conf = folder / "nsswitch.conf";
    o.hosts = folder / "hosts";
    o.check_every = 0ms;
    o.timeout = 5s;
    return o;
  }
};

struct resolves : asked_by_name {
  bool play() {
    std::string why;
    auto const r = names.resolve("a-name-that-is-longer-than-a-small-string.test", 80, soon, {.why = &why});
    auto const wrong_name = names.resolve("not a name", 80, soon, {.why = &why});
    return r.has_value() && r->size() == 1 && !wrong_name.has_value() && !why.empty();
  }
};
struct resolves_by_tcp : asked_by_name {
  bool play() {
    return names.resolve("t-name-that-is-longer-than-a-small-string.test", 80, soon).has_value();
  }
};
struct resolves_from_files : asked_by_name {
  int rounds = 0;
  bool play() { // they have changed each time
    {
      sparing const own;
      folder.write("hosts", "192.0.2.1 here.test there.test\n" + std::string(++rounds % 7 + 1, '#') + "\n");
    }
    return names.resolve("here.test", 80, soon).has_value() && names.resolve("10.1", 80, soon).has_value() &&
           names.names_of(endpoint::ipv4({192, 0, 2, 1}, 0), soon).has_value() &&
           names.capabilities("here.test").way == resolve_way::direct;
  }
};
struct records_of_servers : asked_by_name {
  bool play() {
    return names.services("_a._tcp.test", soon).has_value() && names.texts("h.test", soon).has_value() &&
           names.names_of(endpoint::ipv4({192, 0, 2, 7}, 0), soon).has_value();
  }
};
struct resolves_as_an_operation : asked_by_name {
  struct receiver {
    bool* found;
    void set_value(io_result<endpoint_list>&& r) noexcept { *found = r.has_value(); }
    void set_done() noexcept {}
  };
  bool play() {
    bool found = false;
    auto op = unio::connect(async_resolve(names, "here.test", 80, soon), receiver{&found});
    op.start();
    while (op.poll() != io_status::completed) continue;
    return found;
  }
};
struct resolves_by_the_c_library {
  resolver names{[] {
    resolver_options o;
    o.way = resolve_way::libc;
    return o;
  }()};
  bool play() { return names.resolve("localhost", 80, soon).has_value(); }
};
struct connects_by_name : asked_by_name {
  listening_socket_handle listener = listening();
  bool play() {
    while (listener.try_accept().has_value()) continue;
    std::string why;
    std::string const port = std::to_string(listener.local_endpoint().value().port());
    auto const s = run(co_connect_to("h.test:" + port, soon, {.names = &names, .why = &why}));
    return s.has_value();
  }
};

#endif

#ifdef UNIO_TESTS_TLS

struct secures_a_stream {
  tls_context of_client = test::client();
  tls_context of_server = test::server();
  static task<bool> asks(socket_handle end, tls_context const& context) {
    socket_handle s = std::move(end);
    tls_stream secure(s, context, "example.test");
    if (!(co_await secure.co_handshake(soon)).has_value()) co_return false;
    bool const sent =
        (co_await co_write(secure, const_buffer(some_text.data(), some_text.size()), soon)).has_value();
    co_return sent && (co_await secure.co_shutdown(tls_stream::send, soon)).has_value();
  }
  static task<bool> answers(socket_handle end, tls_context const& context) {
    socket_handle s = std::move(end);
    tls_stream secure(s, context);
    if (!(co_await secure.co_handshake(soon)).has_value()) co_return false;
    std::string text;
    co_return (co_await co_read_all(secure, text, 1 << 20, soon)).has_value() && text == some_text;
  }
  task<bool> both() {
    socket_pair ends = socket_handle::pair().value();
    auto const [sent, read] =
        co_await when_all(asks(std::move(ends.first), of_client), answers(std::move(ends.second), of_server));
    co_return sent&& read;
  }
  bool play() { return run(both()); }
};

// Both ends say why, with what the other one has sent.
struct refuses_a_stream {
  tls_context of_client = test::client();
  tls_context of_server = test::server();
  static task<bool> fails(socket_handle end, tls_context const& context, char const* name) {
    socket_handle s = std::move(end);
    tls_stream secure(s, context, name);
    bool const met = (co_await secure.co_handshake(soon)).has_value();
    co_return !met && !secure.why().empty();
  }
  task<bool> both() {
    socket_pair ends = socket_handle::pair().value();
    auto const [asked, answered] =
        co_await when_all(fails(std::move(ends.first), of_client, "a-server-with-another-name.test"),
                          fails(std::move(ends.second), of_server, ""));
    co_return asked&& answered;
  }
  bool play() { return run(both()); }
};

#endif

// ── files ──────────────────────────────────────────────────────────────────────────────────────────────────

struct trees {
  test::temporary_directory folder;
  trees() {
    std::filesystem::create_directories(folder / "a/b/c");
    for (char const* const name : {"a/one", "a/b/two", "a/b/c/three"}) folder.write(name, "contents");
  }
  struct counts : fs::walk_visitor {
    std::atomic<int> n = 0;
    fs::walk_step entry(fs::walk_entry const&) noexcept override {
      ++n;
      return fs::walk_step::go_on;
    }
  };
  task<bool> all() {
    path_handle const& at = folder.handle();
    counts visitor;
    auto const walked = co_await fs::co_walk(at, "a", visitor, {}, soon);
    auto const listed = co_await fs::co_contents(at, "a", {}, soon);
    auto const copied = co_await fs::co_clone_or_copy(at, "a", at, "copy", {}, soon);
    auto const same = co_await fs::co_compare(at, "a", at, "copy", nullptr, {}, soon);
    auto const removed = co_await fs::co_reduce(at, "copy", {}, soon);
    co_return walked.has_value() && visitor.n >= 5 && listed.has_value() && copied.has_value() &&
        copied->is_in_place&& same.has_value() && removed.has_value() && removed->is_gone;
  }
  void clean() const {
    sparing const own;
    for (auto const& e : std::filesystem::directory_iterator(folder.path()))
      if (e.path().filename() != "a") std::filesystem::remove_all(e.path());
  }
  bool play() {
    clean(); // what a failure has left
    return run(all());
  }
};

struct locks_between_processes {
  test::temporary_directory folder;
  fs::byte_ranges mutex = fs::byte_ranges::open(folder / "lock").value();
  task<bool> all() {
    std::array<fs::entity, 20> some;
    for (std::size_t i = 0; i != some.size(); ++i) some[i] = fs::entity(i);
    auto const held = co_await fs::co_lock(mutex, some, soon);
    co_return held.has_value();
  }
  bool play() { return run(all()); }
};

struct any_row {
  char const* name;
  void (*play)(char const* name);
};
constexpr any_row rows[] = {
    {"tasks_side_by_side", &play<tasks_side_by_side>},
    {"one_is_late", &play<one_is_late>},
    {"group", &play<group>},
    {"other_threads", &play<other_threads>},
    {"started_alone", &play<started_alone>},
    {"connected_task", &play<connected_task>},
    {"values_passed_on", &play<values_passed_on>},
    {"held_in_turns", &play<held_in_turns>},
    {"whole_transfers", &play<whole_transfers>},
    {"buffered_lines", &play<buffered_lines>},
    {"copies", &play<copies>},
    {"receives", &play<receives>},
    {"chains_and_handlers", &play<chains_and_handlers>},
    {"accepts", &play<accepts>},
    {"races_connections", &play<races_connections>},
#ifdef UNIO_TESTS_NAMES
    {"resolves", &play<resolves>},
    {"resolves_by_tcp", &play<resolves_by_tcp>},
    {"resolves_from_files", &play<resolves_from_files>},
    {"records_of_servers", &play<records_of_servers>},
    {"resolves_as_an_operation", &play<resolves_as_an_operation>},
    {"resolves_by_the_c_library", &play<resolves_by_the_c_library>},
    {"connects_by_name", &play<connects_by_name>},
#endif
#ifdef UNIO_TESTS_TLS
    {"secures_a_stream", &play<secures_a_stream>},
    {"refuses_a_stream", &play<refuses_a_stream>},
#endif
    {"trees", &play<trees>},
    {"locks_between_processes", &play<locks_between_processes>},
};

} // namespace

int main(int argc, char** argv) {
  (void)::signal(SIGALRM, [](int) { give_up("it has not ended"); });
  std::set_terminate([] { give_up("std::terminate()"); });
  if (argc > 1 && argv[1] == std::string_view("canary")) {
    patience_s = 5;
    play<canary>("canary");
    return 1;
  }
  for (any_row const& r : rows)
    if (argc == 1 || argv[1] == std::string_view(r.name)) r.play(r.name);
  std::printf("%s\n", wrong ? "not well" : "all well");
  return wrong ? 1 : 0;
}
