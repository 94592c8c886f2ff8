// Loops that a peer feeds, fed for ever: each ends by its deadline, by a stop of another thread, and by a
// timeout() around it. A transfer that completes at once never waits, so a limit that is looked at only where
// something waits is never seen.
//
// The streams in memory are the hardest peers: each transfer moves a byte, at once, and looks at no limit
// itself. So that a loop without limits ends, they fail after the watchdog.

#include "coro/streams.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr auto soon = 50ms;
constexpr auto watchdog = 30s;

/// A stream without an end, until the watchdog.
struct endless {
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::now() + watchdog;

  [[nodiscard]] bool goes_on() const { return std::chrono::steady_clock::now() < until; }
  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request) {
    if (!goes_on()) co_return io_result<mutable_buffers>(broken, 0);
    *request.buffers.front().data() = std::byte{'x'};
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(request.buffers.first(1)), 1);
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request) {
    if (!goes_on()) co_return io_result<const_buffers>(broken, 0);
    co_return io_result<const_buffers>(unio::result<const_buffers>(request.buffers.first(1)), 1);
  }
};

/// A stream of blocks, for copy(): its sinks take a byte at a time.
struct blocks : endless {
  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request) {
    if (!goes_on()) co_return io_result<mutable_buffers>(broken, 0);
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(request.buffers),
                                         request.buffers.bytes());
  }
};

// More than anything moves byte by byte before the watchdog. Touched only as far as it is used.
std::span<std::byte> much() {
  constexpr std::size_t size = std::size_t{1} << 28;
  static std::unique_ptr<std::byte[]> const memory(new std::byte[size]);
  return {memory.get(), size};
}

// ---- loops over streams in memory -------------------------------------------------------------------------

using ended = unio::result<void>;

template <class Result> ended end_of(Result const& r) {
  if (r.has_value()) return {};
  return r.error();
}

task<ended> reads(endless& s, deadline d) {
  co_return end_of(co_await unio::co_read(s, mutable_buffer(much().data(), much().size()), d));
}
task<ended> writes(endless& s, deadline d) {
  co_return end_of(co_await unio::co_write(s, const_buffer(much().data(), much().size()), d));
}
task<ended> reads_until(endless& s, deadline d) {
  std::string text;
  co_return end_of(co_await unio::co_read_until(s, text, "\n", d));
}
task<ended> reads_all(endless& s, deadline d) {
  std::string text;
  co_return end_of(co_await unio::co_read_all(s, text, much().size(), d));
}
task<ended> copies(endless& s, deadline d) { co_return end_of(co_await unio::co_copy(s, s, d)); }
task<ended> copies_blocks(endless& s, deadline d) {
  blocks from;
  from.until = s.until;
  co_return end_of(co_await unio::co_copy(from, s, d));
}
task<ended> copies_what_is_buffered(endless& s, deadline d) {
  unio::buffered_reader in(s, 100);
  co_return end_of(co_await unio::co_copy(in, s, unio::no_limit, d));
}
task<ended> peeks(endless& s, deadline d) {
  unio::buffered_reader in(s, mutable_buffer(much().data(), much().size()));
  co_return end_of(co_await in.co_peek(much().size(), d));
}
task<ended> reads_a_line(endless& s, deadline d) {
  unio::buffered_reader in(s, mutable_buffer(much().data(), much().size()));
  co_return end_of(co_await in.co_read_line(d));
}
task<ended> flushes(endless& s, deadline d) {
  std::string const text(std::size_t{16} << 20, 'x');
  unio::buffered_writer out(s, mutable_buffer(much().data(), much().size()));
  auto const taken = co_await out.co_write(text);
  if (!taken.has_value()) co_return taken.error();
  co_return end_of(co_await out.co_flush(d));
}
// The canary: it ends when its peer does.
task<ended> asks_no_limit(endless& s, deadline d) {
  for (;;) {
    auto const got = co_await unio::any_stream(s).co_read(mutable_buffer(much().data(), 1), d);
    if (!got.has_value()) co_return got.error();
  }
}

struct loop {
  char const* name;
  task<ended> (*run)(endless&, deadline);
};
constexpr loop loops[] = {
    {"read", &reads},
    {"write", &writes},
    {"read_until", &reads_until},
    {"read_all", &reads_all},
    {"copy", &copies},
    {"copy_of_blocks", &copies_blocks},
    {"copy_of_what_is_buffered", &copies_what_is_buffered},
    {"peek", &peeks},
    {"read_line", &reads_a_line},
    {"flush", &flushes},
};
void PrintTo(loop const& l, std::ostream* out) { *out << l.name; }

// Asks it to stop, from another thread, once it has begun.
ended stopped_soon(task<ended> t) {
  unio::stop_source stop;
  ended e;
  std::thread stopper([&] {
    std::this_thread::sleep_for(soon);
    stop.request_stop();
  });
  {
    beside<ended> running(std::move(t), {.stop = stop.get_token()});
    e = running.get();
  }
  stopper.join();
  return e;
}
task<ended> timed(task<ended> t) { co_return co_await unio::timeout(soon, std::move(t)); }

class fed_for_ever : public ::testing::TestWithParam<loop> {
 protected:
  task<ended> run(deadline d) { return GetParam().run(stream_, d); }

 private:
  endless stream_;
};
INSTANTIATE_TEST_SUITE_P(loop, fed_for_ever, ::testing::ValuesIn(loops),
                         [](auto const& of) { return of.param.name; });

TEST_P(fed_for_ever, ends_by_its_deadline) { EXPECT_EQ(run_here(run(soon)).error(), condition::timed_out); }
TEST_P(fed_for_ever, ends_by_a_stop) { EXPECT_EQ(stopped_soon(run({})).error(), condition::canceled); }
TEST_P(fed_for_ever, ends_by_a_timeout_around_it) {
  EXPECT_EQ(run_here(timed(run({}))).error(), condition::timed_out);
}
TEST_P(fed_for_ever, ends_where_it_may_not_wait) {
  EXPECT_EQ(run_here(run(deadline::zero())).error(), condition::would_block);
}

TEST(fed_for_ever_canary, loop_that_asks_no_limit_outlives_its_limits) {
  endless s{std::chrono::steady_clock::now() + 10 * soon};
  EXPECT_EQ(run_here(asks_no_limit(s, soon)).error(), broken);
  s.until = std::chrono::steady_clock::now() + 10 * soon;
  EXPECT_EQ(stopped_soon(asks_no_limit(s, {})).error(), broken);
}

// ---- loops over what the kernel has ----------------------------------------------------------------------

// Calls `step` in a thread of its own until it is destroyed, or the watchdog has come: then `at_last`.
template <class Step, class AtLast> class feeding {
 public:
  feeding(Step step, AtLast at_last)
      : thread_([this, step, at_last]() mutable {
          auto const until = std::chrono::steady_clock::now() + watchdog;
          while (!is_over_.load() && std::chrono::steady_clock::now() < until) step();
          if (!is_over_.load()) at_last();
        }) {}
  feeding(feeding const&) = delete;
  feeding& operator=(feeding const&) = delete;
  ~feeding() {
    is_over_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

struct sockets {
  unio::socket_pair ends = unio::socket_handle::pair().value();
  int peer = ends.second.native_handle();
  feeding<std::function<void()>, std::function<void()>> fed{
      [this] {
        static std::array<char, 4096> const text{};
        if (::send(peer, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
          std::this_thread::yield();
      },
      [this] { ::shutdown(peer, SHUT_RDWR); }};
};

task<ended> splices(sockets& from, unio::anonymous_pipe& to, deadline d) {
  co_return end_of(co_await unio::co_copy(from.ends.first, to.writer, d));
}

TEST(fed_for_ever_by_sockets, splicing_ends_by_its_deadline_and_by_a_stop) {
  unio::anonymous_pipe to = pipe();
  sockets from;
  int const reader = to.reader.native_handle();
  ASSERT_EQ(::fcntl(reader, F_SETFL, O_NONBLOCK), 0);
  feeding const drained(
      [reader] {
        std::array<char, 65536> room;
        if (::read(reader, room.data(), room.size()) < 0) std::this_thread::yield();
      },
      [] {});
  EXPECT_EQ(run_here(splices(from, to, soon)).error(), condition::timed_out);
  EXPECT_EQ(stopped_soon(splices(from, to, {})).error(), condition::canceled);
  EXPECT_EQ(run_here(timed(splices(from, to, {}))).error(), condition::timed_out);
}

task<ended> receives(unio::io_handle& from, unio::buffer_pool& pool) {
  unio::receiving in(from, pool);
  for (;;)
    if (!co_await in.co_next()) break;
  co_return in.error();
}

TEST(fed_for_ever_by_sockets, receiving_ends_by_a_stop) {
  unio::buffer_pool pool(32, 1024);
  sockets from;
  EXPECT_EQ(stopped_soon(receives(from.ends.first, pool)).error(), condition::canceled);
  EXPECT_EQ(run_here(timed(receives(from.ends.first, pool))).error(), condition::timed_out);
}

task<ended> accepts(unio::listening_socket_handle& l) {
  co_return co_await unio::co_for_each_connection(l, [](unio::socket_handle) {});
}

TEST(fed_for_ever_by_sockets, accepting_ends_by_a_stop) {
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  unio::endpoint const at = listener.local_endpoint().value();
  auto const connect = [at] {
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    linger const reset{1, 0}; // no TIME_WAIT: the ports would run out
    ::setsockopt(s, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)::connect(s, static_cast<sockaddr const*>(at.data()), at.size());
    ::close(s);
  };
  int const fd = listener.native_handle();
  feeding const fed(connect, [fd] { ::shutdown(fd, SHUT_RDWR); });
  EXPECT_EQ(stopped_soon(accepts(listener)).error(), condition::canceled);
  EXPECT_EQ(run_here(timed(accepts(listener))).error(), condition::timed_out);
}

// A writer that appends nothing, but has inotify say without end that the file was written to.
TEST(fed_for_ever_by_a_file, tail_ends_by_its_deadline) {
  temporary_directory d;
  d.write("log", "before\n");
  auto t = unio::tail_handle::follow(d.handle(), "log").value();
  int const fd = ::open((d / "log").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    feeding const fed([fd] { (void)!::pwrite(fd, "B", 1, 0); },
                      [fd] { (void)!::pwrite(fd, "the watchdog has come", 21, 7); });
    std::array<char, 64> room;
    EXPECT_EQ(t.read(room, soon).error(), condition::timed_out);
    auto const read = [&](deadline limit) -> task<ended> {
      co_return end_of(co_await t.co_read(room, limit));
    };
    EXPECT_EQ(run_here(read(soon)).error(), condition::timed_out);
    EXPECT_EQ(stopped_soon(read({})).error(), condition::canceled);
  }
  ::close(fd);
}

} // namespace
