// stream.hpp and buffered_stream.hpp: what is a stream; whole reads and writes; delimiters; copying; buffers
// and lines.
//
// On pipes, sockets and files of the driver under test, and on a scripted stream, which moves as much at a
// time as it is told and fails when it is told. Where a stream has something, and how much of it comes at
// once, is tried at every byte.

#include "support/temporary_directory.hpp"

#include <unio/buffered_stream.hpp>
#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using unio::condition;
using unio::const_buffer;
using unio::const_buffers;
using unio::deadline;
using unio::io_request;
using unio::io_result;
using unio::mutable_buffer;
using unio::mutable_buffers;
using unio::task;

unio::anonymous_pipe pipe() { return unio::pipe_handle::anonymous().value(); }

std::error_code const broken{EPROTO, std::system_category()};

std::string numbered(std::size_t n) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>('a' + (i * 7 + i / 26) % 26);
  return s;
}

template <class Buffer> std::string text_of(unio::buffer_list<Buffer> const& list) {
  std::string s;
  for (Buffer const b : list) s.append(reinterpret_cast<char const*>(b.data()), b.size());
  return s;
}

std::string_view text_of(const_buffer b) { return {reinterpret_cast<char const*>(b.data()), b.size()}; }

// What runs here runs where it should.
class here {
 public:
  here() = default;
  void check(unio::executor_ref e) const {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_EQ(e, unio::executor_ref(executor_));
  }

 private:
  std::thread::id thread_ = std::this_thread::get_id();
  unio::multiplexer_executor executor_ = unio::this_thread::multiplexer().executor();
};

template <class T> task<T> checked(task<T> t) {
  here const place;
  T r = co_await std::move(t);
  auto const executor = co_await unio::this_coro::executor;
  place.check(executor);
  co_return r;
}

template <class T> T run_here(task<T> t) { return unio::run(checked(std::move(t))); }

// Runs beside what run_here() runs.
template <class T> class beside {
 public:
  explicit beside(task<T> t, unio::run_options const& options = {}) {
    unio::async_run(
        unio::this_thread::multiplexer(), checked(std::move(t)),
        [this](unio::task_outcome<T> o) { outcome_.emplace(std::move(o)); }, options);
  }
  beside(beside const&) = delete;
  beside& operator=(beside const&) = delete;
  ~beside() { (void)get(); }
  [[nodiscard]] bool done() const { return outcome_.has_value(); }
  // Lets it go on until it waits for what will not come.
  void until_it_waits() const {
    for (int i = 0; i != 20 && !done(); ++i) (void)unio::this_thread::multiplexer().try_run();
  }
  T& get() {
    while (!done()) (void)unio::this_thread::multiplexer().run();
    return outcome_->value();
  }

 private:
  std::optional<unio::task_outcome<T>> outcome_;
};

// ---- a scripted stream ------------------------------------------------------------------------------------

// Yields `source`, and takes into `sink`, by the script: how many bytes at most, and what goes wrong then.
// After the script: `most` at a time.
struct scripted {
  struct step {
    std::size_t bytes;
    std::error_code error = {};
  };
  std::string source = {};
  std::string sink = {};
  std::size_t most = static_cast<std::size_t>(-1);
  std::deque<step> reads = {};
  std::deque<step> writes = {};
  std::size_t at = 0;
  int calls = 0;

  static step take(std::deque<step>& script, std::size_t otherwise) {
    if (script.empty()) return {otherwise};
    step const s = script.front();
    script.pop_front();
    return s;
  }

  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request, deadline = {}) {
    ++calls;
    EXPECT_NE(request.buffers.bytes(), 0U) << "an empty read asks nothing of the stream";
    step const s = take(reads, most);
    std::size_t n = std::min({s.bytes, request.buffers.bytes(), source.size() - at});
    mutable_buffers const filled = request.buffers.first(n);
    for (mutable_buffer const b : filled) {
      std::copy_n(source.data() + at, b.size(), reinterpret_cast<char*>(b.data()));
      at += b.size();
    }
    if (s.error) co_return io_result<mutable_buffers>(s.error, n);
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(filled), n);
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request, deadline = {}) {
    ++calls;
    EXPECT_NE(request.buffers.bytes(), 0U) << "an empty write asks nothing of the stream";
    step const s = take(writes, most);
    std::size_t const n = std::min(s.bytes, request.buffers.bytes());
    const_buffers const taken = request.buffers.first(n);
    sink += text_of(taken);
    if (s.error) co_return io_result<const_buffers>(s.error, n);
    co_return io_result<const_buffers>(unio::result<const_buffers>(taken), n);
  }
};

// Yields views of its own memory, as a mapped file does, through an awaitable that knows no environment;
// takes no deadline; cannot be written.
struct viewed {
  std::string source;
  std::size_t most;
  std::size_t at = 0;

  struct awaiter {
    viewed& v;
    std::size_t room;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
    [[nodiscard]] io_result<mutable_buffers> await_resume() const noexcept {
      std::size_t const n = std::min({room, v.most, v.source.size() - v.at});
      mutable_buffers const got = mutable_buffers(mutable_buffer(v.source.data() + v.at, n)).first(n);
      v.at += n;
      return {unio::result<mutable_buffers>(got), n};
    }
  };
  [[nodiscard]] awaiter co_read(io_request<mutable_buffers> request) {
    return {*this, request.buffers.bytes()};
  }
};

// Completes on a thread of its own.
struct from_elsewhere {
  struct awaiter {
    mutable_buffers to;
    std::thread thread;
    [[nodiscard]] static bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      thread = std::thread([h] { h.resume(); });
    }
    [[nodiscard]] io_result<mutable_buffers> await_resume() {
      thread.join();
      *to.front().data() = std::byte{'x'};
      return {unio::result<mutable_buffers>(to.first(1)), 1};
    }
  };
  [[nodiscard]] awaiter co_read(io_request<mutable_buffers> request) { return {request.buffers, {}}; }
};

// ---- what is a stream -------------------------------------------------------------------------------------

struct not_a_stream {
  static task<int> co_read(io_request<mutable_buffers>);
  static io_result<const_buffers> co_write(io_request<const_buffers>);
};

static_assert(unio::stream<unio::io_handle> && unio::stream<unio::pipe_handle> &&
              unio::stream<unio::socket_handle> && unio::stream<unio::file_handle> &&
              unio::stream<unio::mapped_file_handle>);
static_assert(unio::stream<unio::any_stream> && unio::stream<unio::buffered_stream> &&
              unio::stream<scripted>);
static_assert(unio::read_stream<viewed> && !unio::write_stream<viewed>);
static_assert(unio::read_stream<from_elsewhere>);
static_assert(unio::read_stream<unio::buffered_reader> && !unio::write_stream<unio::buffered_reader>);
static_assert(unio::write_stream<unio::buffered_writer> && !unio::read_stream<unio::buffered_writer>);
static_assert(!unio::read_stream<not_a_stream> && !unio::write_stream<not_a_stream> && !unio::stream<int> &&
              !unio::stream<unio::listening_socket_handle>);
static_assert(std::convertible_to<unio::socket_handle&, unio::any_stream> &&
              std::convertible_to<unio::any_stream, unio::any_read_stream> &&
              std::convertible_to<unio::any_stream, unio::any_write_stream> &&
              !std::convertible_to<viewed&, unio::any_stream> &&
              !std::convertible_to<unio::any_read_stream, unio::any_stream>);

TEST(any_stream, knows_the_handle_that_it_refers_to) {
  auto p = pipe();
  unio::any_stream const s = p.reader;
  EXPECT_EQ(s.handle(), &p.reader);
  EXPECT_EQ(unio::any_read_stream(s).handle(), &p.reader);
  scripted other;
  EXPECT_EQ(unio::any_stream(other).handle(), nullptr);
  EXPECT_TRUE(unio::any_stream(other));
  EXPECT_FALSE(unio::any_stream());
  EXPECT_EQ(unio::any_stream().handle(), nullptr);
}

TEST(any_stream, moves_what_the_stream_moves) {
  auto const body = [](unio::any_stream s) -> task<std::string> {
    std::string_view const text = "abc";
    io_result<const_buffers> const w = co_await s.co_write(io_request<const_buffers>(text));
    EXPECT_EQ(w.value().bytes(), 3U);
    std::array<char, 8> room{};
    io_result<mutable_buffers> const r = co_await s.co_read(io_request<mutable_buffers>(room));
    co_return text_of(r.value());
  };
  scripted mock{.source = "xyz"};
  EXPECT_EQ(run_here(body(mock)), "xyz");
  EXPECT_EQ(mock.sink, "abc");
  auto [a, b] = unio::socket_handle::pair().value();
  b.write(std::string_view("peer")).value();
  EXPECT_EQ(run_here(body(a)), "peer");
  std::array<char, 8> room{};
  EXPECT_EQ(text_of(b.read(room).value()), "abc");
}

TEST(any_stream, suspends_until_a_handle_is_ready) {
  auto p = pipe();
  std::array<char, 8> room{};
  auto const body = [](unio::any_stream s, mutable_buffer to) -> task<io_result<mutable_buffers>> {
    co_return co_await s.co_read(io_request<mutable_buffers>(to));
  };
  beside reading(body(p.reader, room));
  reading.until_it_waits();
  EXPECT_FALSE(reading.done());
  p.writer.write(std::string_view("late")).value();
  EXPECT_EQ(text_of(reading.get().value()), "late");
}

TEST(any_stream, goes_on_where_it_was_after_a_stream_that_completes_elsewhere) {
  from_elsewhere s;
  std::array<char, 3> room{};
  EXPECT_EQ(text_of(run_here(unio::read(s, room)).value()), "xxx"); // run_here() checks the thread
}

// ---- read -------------------------------------------------------------------------------------------------

TEST(read, fills_the_buffer_however_short_the_transfers_are) {
  std::string const text = numbered(40);
  for (std::size_t most = 1; most <= text.size(); ++most) {
    SCOPED_TRACE(most);
    scripted s{.source = text + "more", .most = most};
    std::string room(text.size(), '-');
    auto const r = run_here(unio::read(s, room));
    EXPECT_EQ(r.bytes_transferred(), text.size());
    EXPECT_EQ(text_of(r.value()), text);
    EXPECT_EQ(s.at, text.size()) << "not a byte more";
    EXPECT_EQ(s.calls, static_cast<int>((text.size() + most - 1) / most));
  }
}

TEST(read, fills_several_buffers_split_anywhere) {
  std::string const text = numbered(12);
  for (std::size_t first = 0; first <= 12; ++first)
    for (std::size_t second = first; second <= 12; ++second)
      for (std::size_t most = 1; most <= 12; ++most) {
        std::string room(12, '-');
        std::array<mutable_buffer, 4> const list{mutable_buffer(room.data(), first),
                                                 mutable_buffer(room.data() + first, second - first),
                                                 mutable_buffer(), // empty
                                                 mutable_buffer(room.data() + second, 12 - second)};
        scripted s{.source = text, .most = most};
        auto const r = run_here(unio::read(s, mutable_buffers(list)));
        ASSERT_TRUE(r.has_value());
        ASSERT_EQ(room, text) << first << ' ' << second << ' ' << most;
        viewed v{.source = text, .most = most};
        room.assign(12, '-');
        ASSERT_TRUE(run_here(unio::read(v, mutable_buffers(list))).has_value());
        ASSERT_EQ(room, text) << "from views: " << first << ' ' << second << ' ' << most;
      }
}

TEST(read, fills_a_list_that_was_cut_and_nothing_behind_it) {
  std::string room(10, '-');
  std::array<mutable_buffer, 2> const list{mutable_buffer(room.data(), 5),
                                           mutable_buffer(room.data() + 5, 5)};
  for (std::size_t most = 1; most <= 10; ++most) {
    room.assign(10, '-');
    scripted s{.source = "abcdefghij", .most = most};
    ASSERT_EQ(run_here(unio::read(s, mutable_buffers(list).first(7))).bytes_transferred(), 7U);
    ASSERT_EQ(room, "abcdefg---");
  }
}

TEST(read, of_nothing_asks_nothing) {
  scripted s;
  auto const r = run_here(unio::read(s, mutable_buffers()));
  EXPECT_TRUE(r.has_value());
  EXPECT_EQ(r.bytes_transferred(), 0U);
  std::array<mutable_buffer, 2> const empties{};
  EXPECT_TRUE(run_here(unio::read(s, mutable_buffers(empties))).has_value());
  EXPECT_EQ(s.calls, 0);
  auto p = pipe(); // nothing is in the pipe
  EXPECT_TRUE(run_here(unio::read(p.reader, mutable_buffers())).has_value());
}

TEST(read, tells_how_far_it_came_when_the_stream_ends) {
  for (std::size_t there = 0; there != 10; ++there)
    for (std::size_t most = 1; most <= 10; ++most) {
      scripted s{.source = numbered(there), .most = most};
      std::string room(10, '-');
      auto const r = run_here(unio::read(s, room));
      EXPECT_EQ(r.error(), there == 0 ? condition::end_of_stream : condition::truncated);
      EXPECT_EQ(r.bytes_transferred(), there);
      EXPECT_EQ(room.substr(0, there), s.source);
    }
}

TEST(read, tells_how_far_it_came_when_the_stream_fails_with_bytes_or_without) {
  for (std::size_t before = 0; before != 9; ++before)
    for (std::size_t beside = 0; beside + before < 9; ++beside) {
      scripted s{.source = numbered(20)};
      if (before != 0) s.reads.push_back({before});
      s.reads.push_back({beside, broken});
      std::string room(9, '-');
      auto const r = run_here(unio::read(s, room));
      EXPECT_EQ(r.error(), broken);
      EXPECT_EQ(r.bytes_transferred(), before + beside);
      EXPECT_EQ(room.substr(0, before + beside), s.source.substr(0, before + beside));
    }
}

TEST(read, succeeds_when_the_error_came_with_the_last_byte) {
  scripted s{.source = "abc", .reads = {{3, broken}}};
  std::array<char, 3> room{};
  EXPECT_EQ(text_of(run_here(unio::read(s, room)).value()), "abc");
}

TEST(read, waits_for_all_of_it_on_pipes_and_sockets) {
  std::string const text = numbered(50);
  for (std::size_t piece = 1; piece <= text.size(); piece += 3) {
    auto p = pipe();
    auto [a, b] = unio::socket_handle::pair().value();
    std::string room(text.size(), '-'), other(text.size(), '-');
    beside from_pipe(unio::read(p.reader, room));
    beside from_socket(unio::read(b, other));
    for (std::size_t at = 0; at < text.size(); at += piece) {
      EXPECT_FALSE(from_pipe.done());
      p.writer.write(std::string_view(text).substr(at, piece)).value();
      a.write(std::string_view(text).substr(at, piece)).value();
      (void)unio::this_thread::multiplexer().try_run();
    }
    EXPECT_EQ(text_of(from_pipe.get().value()), text);
    EXPECT_EQ(text_of(from_socket.get().value()), text);
  }
}

TEST(read, of_a_file_goes_on_from_its_offset_or_its_position) {
  test::temporary_directory const directory;
  auto file = unio::file_handle::temp_inode().value();
  std::string const text = numbered(100);
  file.write({const_buffer(text), 0}).value();
  std::string room(30, '-');
  EXPECT_EQ(text_of(run_here(unio::read(file, {mutable_buffer(room), 50})).value()), text.substr(50, 30));
  EXPECT_EQ(run_here(unio::read(file, {mutable_buffer(room), 90})).error(), condition::truncated);
  EXPECT_EQ(run_here(unio::read(file, {mutable_buffer(room), 100})).error(), condition::end_of_stream);
}

TEST(read, of_a_mapped_file_fills_the_buffers_that_it_was_given) {
  test::temporary_directory const directory;
  std::string const name = directory.path() + "/mapped";
  std::string const text = numbered(100);
  unio::file_handle::file({}, name, unio::handle::mode::write, unio::handle::creation::if_needed)
      .value()
      .write({const_buffer(text), 0})
      .value();
  auto mapped = unio::mapped_file_handle::mapped_file({}, name).value();
  std::string room(30, '-');
  EXPECT_EQ(run_here(unio::read(mapped, {mutable_buffer(room), 10})).bytes_transferred(), 30U);
  EXPECT_EQ(room, text.substr(10, 30));
}

TEST(read, is_bounded_as_a_whole_by_its_deadline) {
  auto p = pipe();
  std::array<char, 10> room{};
  p.writer.write(std::string_view("abc")).value();
  auto r = run_here(unio::read(p.reader, room, 2ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  r = run_here(unio::read(p.reader, room, std::chrono::steady_clock::now() - 1s));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 0U);
  r = run_here(unio::read(p.reader, room, std::chrono::system_clock::now() + 1ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  p.writer.write(std::string_view("abc")).value();
  r = run_here(unio::read(p.reader, room, deadline::zero()));
  EXPECT_EQ(r.error(), condition::would_block);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  // A stream that knows no deadlines: it is looked at between its transfers.
  viewed v{.source = "abcdef", .most = 2};
  r = run_here(unio::read(v, mutable_buffer(room.data(), 6), std::chrono::steady_clock::now() - 1s));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 2U);
}

TEST(read, that_is_stopped_tells_how_far_it_came) {
  auto p = pipe();
  unio::stop_source stop;
  std::array<char, 10> room{};
  p.writer.write(std::string_view("abc")).value();
  beside reading(unio::read(p.reader, room), {.stop = stop.get_token()});
  reading.until_it_waits();
  EXPECT_FALSE(reading.done());
  stop.request_stop();
  EXPECT_EQ(reading.get().error(), condition::canceled);
  EXPECT_EQ(reading.get().bytes_transferred(), 3U);
  EXPECT_EQ(std::string_view(room.data(), 3), "abc");
}

TEST(read, may_be_destroyed_while_it_waits) {
  auto p = pipe();
  scripted const other;
  std::array<char, 10> room{};
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto const executor = m.executor();
  unio::environment const e{.executor = executor, .multiplexer = &m};
  for (bool const through_a_buffer : {false, true}) {
    unio::buffered_reader buffered(p.reader, 16);
    auto t = through_a_buffer ? unio::read(buffered, room) : unio::read(p.reader, room);
    t.child().promise().set_environment(e);
    t.child().promise().set_continuation(std::noop_coroutine());
    t.child().resume();
    (void)m.try_run();
    t = {};
    p.writer.write(std::string_view("abc")).value();
    EXPECT_EQ(p.reader.read(room).bytes_transferred(), 3U) << "nobody took it";
  }
}

// ---- write ------------------------------------------------------------------------------------------------

TEST(write, takes_everything_however_short_the_transfers_are) {
  std::string const text = numbered(12);
  for (std::size_t first = 0; first <= 12; ++first)
    for (std::size_t most = 1; most <= 12; ++most) {
      std::array<const_buffer, 3> const list{const_buffer(text.data(), first), const_buffer(),
                                             const_buffer(text.data() + first, 12 - first)};
      scripted s{.most = most};
      auto const r = run_here(unio::write(s, const_buffers(list)));
      ASSERT_EQ(r.bytes_transferred(), 12U);
      ASSERT_EQ(text_of(r.value()), text);
      ASSERT_EQ(s.sink, text);
    }
}

TEST(write, of_nothing_asks_nothing) {
  scripted s;
  EXPECT_TRUE(run_here(unio::write(s, const_buffers())).has_value());
  EXPECT_EQ(s.calls, 0);
}

TEST(write, tells_how_far_it_came_when_the_stream_fails) {
  for (std::size_t before = 0; before != 9; ++before)
    for (std::size_t beside = 0; beside + before < 9; ++beside) {
      scripted s;
      if (before != 0) s.writes.push_back({before});
      s.writes.push_back({beside, broken});
      std::string const text = numbered(9);
      auto const r = run_here(unio::write(s, text));
      EXPECT_EQ(r.error(), broken);
      EXPECT_EQ(r.bytes_transferred(), before + beside);
      EXPECT_EQ(s.sink, text.substr(0, before + beside));
    }
  scripted s{.writes = {{3, broken}}};
  EXPECT_TRUE(run_here(unio::write(s, std::string_view("abc"))).has_value()) << "nothing was missing";
}

TEST(write, does_not_ask_a_stream_for_ever_that_takes_nothing) {
  scripted s{.writes = {{2}, {0}}};
  auto const r = run_here(unio::write(s, std::string_view("abc")));
  EXPECT_EQ(r.error(), std::errc::io_error);
  EXPECT_EQ(r.bytes_transferred(), 2U);
}

TEST(write, of_more_than_a_pipe_holds_waits_for_its_reader) {
  auto p = pipe();
  std::string const text = numbered(300'000);
  beside writing(unio::write(p.writer, text));
  std::string room(text.size(), '-');
  EXPECT_EQ(run_here(unio::read(p.reader, room)).bytes_transferred(), text.size());
  EXPECT_EQ(room, text);
  EXPECT_EQ(writing.get().bytes_transferred(), text.size());
}

TEST(write, that_is_stopped_or_out_of_time_tells_how_far_it_came) {
  auto p = pipe();
  std::string const text = numbered(300'000);
  unio::stop_source stop;
  std::size_t written = 0;
  {
    beside writing(unio::write(p.writer, text), {.stop = stop.get_token()});
    writing.until_it_waits();
    stop.request_stop();
    EXPECT_EQ(writing.get().error(), condition::canceled);
    written = writing.get().bytes_transferred();
  }
  EXPECT_GT(written, 0U);
  std::string room(written, '-');
  EXPECT_EQ(run_here(unio::read(p.reader, room, 10s)).bytes_transferred(), written);
  EXPECT_EQ(room, text.substr(0, written));
  auto const late = run_here(unio::write(p.writer, text, 2ms));
  EXPECT_EQ(late.error(), condition::timed_out);
  EXPECT_GT(late.bytes_transferred(), 0U);
  EXPECT_EQ(p.reader.try_read(room).has_value(), true);
}

TEST(write, to_nobody_fails_without_a_signal) {
  auto p = pipe();
  p.reader.close().value();
  EXPECT_EQ(run_here(unio::write(p.writer, std::string_view("abc"))).error(), std::errc::broken_pipe);
}

TEST(write, to_a_file_goes_on_from_its_offset) {
  auto file = unio::file_handle::temp_inode().value();
  EXPECT_TRUE(run_here(unio::write(file, {const_buffer("abc", 3), 5})).has_value());
  EXPECT_EQ(file.maximum_extent().value(), 8U);
}

// ---- read_until -------------------------------------------------------------------------------------------

TEST(read_until, finds_the_delimiter_wherever_the_transfers_are_split) {
  std::string const text = "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody";
  for (std::size_t most = 1; most <= text.size(); ++most) {
    scripted s{.source = text, .most = most};
    std::string into;
    auto const r = run_here(unio::read_until(s, into, "\r\n\r\n"));
    ASSERT_TRUE(r.has_value()) << most;
    EXPECT_EQ(into.substr(0, *r), text.substr(0, text.size() - 4));
    EXPECT_EQ(r.bytes_transferred(), into.size());
    EXPECT_EQ(into, text.substr(0, into.size())) << "what was read beyond is there, and nothing else";
  }
}

TEST(read_until, looks_at_what_is_there_first) {
  scripted s{.source = "never"};
  std::vector<char> into{'a', '\n', 'b'};
  auto const r = run_here(unio::read_until(s, into, "\n"));
  EXPECT_EQ(r.value(), 2U);
  EXPECT_EQ(r.bytes_transferred(), 0U);
  EXPECT_EQ(s.calls, 0);
  EXPECT_EQ(into.size(), 3U);
}

TEST(read_until, tells_the_end_from_what_was_cut_off) {
  scripted s{.source = "abc"};
  std::string into;
  auto r = run_here(unio::read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), condition::truncated);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  EXPECT_EQ(into, "abc");
  into.clear();
  r = run_here(unio::read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), condition::end_of_stream);
  EXPECT_TRUE(into.empty());
}

TEST(read_until, is_bounded_by_the_size_that_is_allowed) {
  scripted s{.source = numbered(2000)};
  std::string into;
  auto const r = run_here(unio::read_until(s, {into, 700}, "\n"));
  EXPECT_EQ(r.error(), std::errc::message_size);
  EXPECT_EQ(into, s.source.substr(0, 700));
  EXPECT_EQ(s.at, 700U);
}

TEST(read_until, keeps_what_came_before_an_error_a_stop_or_a_deadline) {
  scripted s{.source = "abcdef", .reads = {{2}, {2, broken}}};
  std::string into = "0";
  auto r = run_here(unio::read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 4U);
  EXPECT_EQ(into, "0abcd");

  scripted last{.source = "ab\ncd", .reads = {{5, broken}}};
  into.clear();
  EXPECT_EQ(run_here(unio::read_until(last, into, "\n")).value(), 3U) << "the delimiter came with the error";

  auto p = pipe();
  p.writer.write(std::string_view("xyz")).value();
  into.clear();
  EXPECT_EQ(run_here(unio::read_until(p.reader, into, "\n", 2ms)).error(), condition::timed_out);
  EXPECT_EQ(into, "xyz");
  unio::stop_source stop;
  beside reading(unio::read_until(p.reader, into, "\n"), {.stop = stop.get_token()});
  reading.until_it_waits();
  stop.request_stop();
  EXPECT_EQ(reading.get().error(), condition::canceled);
  EXPECT_EQ(into, "xyz");
}

// ---- copy -------------------------------------------------------------------------------------------------

TEST(copy, moves_everything_however_short_both_sides_are) {
  std::string const text = numbered(30);
  for (std::size_t in = 1; in <= text.size(); ++in)
    for (std::size_t out = 1; out <= text.size(); ++out) {
      scripted from{.source = text, .most = in}, to{.most = out};
      auto const r = run_here(unio::copy(from, to));
      ASSERT_EQ(r.value(), text.size());
      ASSERT_EQ(to.sink, text);
    }
}

TEST(copy, stops_at_its_limit_and_reads_not_a_byte_more) {
  std::string const text = numbered(30);
  for (std::size_t limit = 0; limit <= 35; ++limit)
    for (std::size_t const most : {1U, 7U, 100U}) {
      scripted from{.source = text, .most = most}, to;
      auto const r = run_here(unio::copy(from, to, limit));
      EXPECT_EQ(r.value(), std::min<std::size_t>(limit, 30));
      EXPECT_EQ(from.at, *r);
      EXPECT_EQ(to.sink, text.substr(0, limit));
      auto a = pipe(), b = pipe(); // splices
      a.writer.write(text).value();
      a.writer.close().value();
      EXPECT_EQ(run_here(unio::copy(a.reader, b.writer, limit)).value(), *r);
      std::string room(40, '-');
      if (*r != 0) {
        EXPECT_EQ(text_of(b.reader.read(room).value()), to.sink);
      }
    }
}

TEST(copy, tells_what_arrived_when_either_side_fails) {
  std::string const text = numbered(30);
  for (std::size_t before = 0; before != 20; ++before) {
    scripted from{.source = text}, to;
    if (before != 0) from.reads.push_back({before});
    from.reads.push_back({3, broken});
    auto r = run_here(unio::copy(from, to));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 3);
    EXPECT_EQ(to.sink, text.substr(0, before + 3));

    scripted again{.source = text}, refuses;
    if (before != 0) refuses.writes.push_back({before});
    refuses.writes.push_back({2, broken});
    r = run_here(unio::copy(again, refuses));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 2);
    EXPECT_EQ(refuses.sink, text.substr(0, before + 2));

    // From a reader the rest is still there.
    scripted kept{.source = text}, refusing;
    if (before != 0) refusing.writes.push_back({before});
    refusing.writes.push_back({2, broken});
    unio::buffered_reader reader(kept, 64);
    r = run_here(unio::copy(reader, refusing));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 2);
    EXPECT_EQ(refusing.sink + std::string(text_of(reader.buffered())), text);
  }
  scripted from{.source = text}, to{.writes = {{0}}};
  EXPECT_EQ(run_here(unio::copy(from, to)).error(), std::errc::io_error);
}

// Every pair of kinds of handle, with and without a pipe between them.
TEST(copy, works_between_all_kinds_of_handles) {
  test::temporary_directory const directory;
  std::string const text = numbered(200'000);
  enum class kind { pipe, socket, file, mapped, appended };
  for (kind const from : {kind::pipe, kind::socket, kind::file, kind::mapped})
    for (kind const to : {kind::pipe, kind::socket, kind::file, kind::appended}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(from)) + " to " + std::to_string(static_cast<int>(to)));
      std::string const name = directory.path() + "/file";
      auto p = pipe(), q = pipe();
      auto s = unio::socket_handle::pair().value();
      auto t = unio::socket_handle::pair().value();
      unio::file_handle file, out;
      unio::mapped_file_handle mapped;
      unio::io_handle* source = nullptr;
      unio::io_handle* sink = nullptr;
      std::optional<beside<io_result<const_buffers>>> feeding;
      auto const feed = [&](unio::io_handle& into) { feeding.emplace(unio::write(into, text)); };
      switch (from) {
        case kind::pipe:
          source = &p.reader;
          feed(p.writer);
          break;
        case kind::socket:
          source = &s.first;
          feed(s.second);
          break;
        default:
          file =
              unio::file_handle::file({}, name, unio::handle::mode::write, unio::handle::creation::always_new)
                  .value();
          EXPECT_EQ(file.write({const_buffer(text), 0}).bytes_transferred(), text.size());
          source = &file;
          if (from == kind::mapped) {
            mapped = unio::mapped_file_handle::mapped_file({}, name).value();
            source = &mapped;
          }
      }
      std::string arrived(text.size(), '-');
      std::optional<beside<io_result<mutable_buffers>>> draining;
      switch (to) {
        case kind::pipe:
          sink = &q.writer;
          draining.emplace(unio::read(q.reader, arrived));
          break;
        case kind::socket:
          sink = &t.first;
          draining.emplace(unio::read(t.second, arrived));
          break;
        default:
          out = unio::file_handle::file(
                    {}, directory.path() + "/out",
                    to == kind::appended ? unio::handle::mode::append : unio::handle::mode::write,
                    unio::handle::creation::always_new)
                    .value();
          sink = &out;
      }
      auto const r = run_here(unio::copy(*source, *sink, text.size()));
      EXPECT_EQ(r.value(), text.size());
      if (draining) {
        EXPECT_TRUE(draining->get().has_value());
      } else {
        auto written = unio::file_handle::file({}, directory.path() + "/out").value();
        EXPECT_EQ(run_here(unio::read(written, {mutable_buffer(arrived), 0})).bytes_transferred(),
                  text.size());
      }
      EXPECT_EQ(arrived, text);
    }
}

TEST(copy, ends_with_its_source) {
  auto p = pipe(), q = pipe();
  auto [a, b] = unio::socket_handle::pair().value();
  p.writer.write(std::string_view("abc")).value();
  p.writer.close().value();
  EXPECT_EQ(run_here(unio::copy(p.reader, q.writer)).value(), 3U);
  a.write(std::string_view("defg")).value();
  a.close().value();
  EXPECT_EQ(run_here(unio::copy(b, q.writer)).value(), 4U);
  std::array<char, 16> room{};
  EXPECT_EQ(text_of(q.reader.read(room).value()), "abcdefg");
}

void fill(unio::io_handle& h) {
  std::string const block(4096, '#');
  while (h.try_write(block).has_value()) {
  }
}
std::string drain(unio::io_handle& h) {
  std::string all, room(65536, '\0');
  for (;;) {
    auto const r = h.try_read(room);
    if (!r.has_value() || r->empty()) return all;
    all.append(room, 0, r.bytes_transferred());
  }
}

// What waits to read, and what waits to write, with and without splicing; stopped, and out of time.
TEST(copy, that_is_stopped_in_the_middle_tells_what_arrived) {
  for (bool const splices : {false, true})
    for (bool const writing : {false, true})
      for (bool const in_time : {false, true}) {
        SCOPED_TRACE(testing::Message() << splices << writing << in_time);
        auto p = pipe(), full = pipe();
        auto s = unio::socket_handle::pair().value();
        auto t = unio::socket_handle::pair().value();
        unio::io_handle& feed = splices ? static_cast<unio::io_handle&>(p.writer) : s.first;
        unio::io_handle& from = splices ? static_cast<unio::io_handle&>(p.reader) : s.second;
        unio::io_handle& to = t.first;
        feed.write(std::string_view("before")).value();
        std::size_t in_the_way = 0;
        if (writing) {
          fill(to);
          in_the_way = 1;
        }
        unio::stop_source stop;
        std::size_t arrived = 0;
        {
          beside copying(unio::copy(from, to, in_time ? deadline(3ms) : deadline()),
                         {.stop = stop.get_token()});
          if (!in_time) {
            copying.until_it_waits();
            EXPECT_FALSE(copying.done());
            stop.request_stop();
          }
          EXPECT_EQ(copying.get().error(), in_time ? condition::timed_out : condition::canceled);
          arrived = copying.get().bytes_transferred();
        }
        EXPECT_EQ(arrived, writing ? 0U : 6U);
        std::string const got = drain(t.second);
        if (in_the_way == 0) {
          EXPECT_EQ(got, "before");
        } else {
          EXPECT_EQ(got.find_first_not_of('#'), got.npos);
        }
        if (splices && writing) {
          EXPECT_EQ(drain(from), "before") << "spliced bytes are never in between";
        }
      }
}

TEST(copy, from_a_reader_loses_nothing_when_it_is_stopped_while_writing) {
  auto s = unio::socket_handle::pair().value();
  auto t = unio::socket_handle::pair().value();
  fill(t.first);
  s.first.write(std::string_view("kept")).value();
  unio::buffered_reader reader(s.second, 64);
  unio::stop_source stop;
  {
    beside copying(unio::copy(reader, t.first), {.stop = stop.get_token()});
    copying.until_it_waits();
    EXPECT_FALSE(copying.done());
    stop.request_stop();
    EXPECT_EQ(copying.get().error(), condition::canceled);
    EXPECT_EQ(copying.get().bytes_transferred(), 0U);
  }
  EXPECT_EQ(text_of(reader.buffered()), "kept");
  (void)drain(t.second);
  s.first.close().value();
  EXPECT_EQ(run_here(unio::copy(reader, t.first)).value(), 4U);
  EXPECT_EQ(drain(t.second), "kept");
}

TEST(copy, from_a_source_without_end_ends_with_its_deadline) {
  auto zeros = unio::file_handle::file({}, "/dev/zero").value();
  auto nowhere = unio::file_handle::file({}, "/dev/null", unio::handle::mode::write).value();
  auto const r = run_here(unio::copy(zeros, nowhere, 5ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_GT(r.bytes_transferred(), 0U);
}

TEST(copy, may_be_destroyed_while_it_waits) {
  auto p = pipe(), q = pipe();
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto const executor = m.executor();
  unio::environment const e{.executor = executor, .multiplexer = &m};
  scripted to;
  for (bool const splices : {false, true}) {
    auto t = splices ? unio::copy(p.reader, q.writer) : unio::copy(p.reader, to);
    t.child().promise().set_environment(e);
    t.child().promise().set_continuation(std::noop_coroutine());
    t.child().resume();
    (void)m.try_run();
    t = {};
    p.writer.write(std::string_view("abc")).value();
    EXPECT_EQ(drain(p.reader), "abc");
  }
}

// ---- buffered reading -------------------------------------------------------------------------------------

TEST(buffered_reader, reads_ahead_once_for_many_small_reads) {
  scripted s{.source = numbered(100)};
  unio::buffered_reader reader(s, 64);
  auto const body = [](unio::buffered_reader& from) -> task<std::string> {
    std::string all;
    for (;;) {
      std::array<char, 7> room{};
      io_result<mutable_buffers> const r = co_await from.co_read(io_request<mutable_buffers>(room));
      if (!r.has_value() || r->empty()) co_return all;
      all += text_of(*r);
    }
  };
  EXPECT_EQ(run_here(body(reader)), s.source);
  EXPECT_EQ(s.calls, 3) << "64 bytes, 36, and the end";
}

TEST(buffered_reader, is_byte_exact_for_every_size_of_memory_request_and_transfer) {
  std::string const text = numbered(25);
  for (std::size_t memory = 0; memory <= 12; ++memory)
    for (std::size_t request = 1; request <= 12; ++request)
      for (std::size_t most = 1; most <= 12; ++most) {
        scripted s{.source = text, .most = most};
        std::string place(memory, '\0');
        unio::buffered_reader reader(s, mutable_buffer(place));
        std::string all(25, '-');
        for (std::size_t at = 0; at < 25; at += request) {
          std::size_t const n = std::min<std::size_t>(request, 25 - at);
          ASSERT_EQ(run_here(unio::read(reader, mutable_buffer(all.data() + at, n))).bytes_transferred(), n);
        }
        ASSERT_EQ(all, text);
        char more = 0;
        ASSERT_EQ(run_here(unio::read(reader, mutable_buffer(&more, 1))).error(), condition::end_of_stream);
      }
}

template <class T> task<T> awaited(unio::detail::buffered_awaitable<unio::detail::buffered_peek> a) {
  co_return co_await std::move(a);
}
io_result<const_buffer> peek(unio::buffered_reader& r, std::size_t n, deadline d = {}) {
  return run_here(awaited<io_result<const_buffer>>(r.co_peek(n, d)));
}

TEST(buffered_reader, shows_what_is_ahead_without_taking_it) {
  for (std::size_t most = 1; most <= 8; ++most) {
    scripted s{.source = "abcdefgh", .most = most};
    unio::buffered_reader reader(s, 6);
    EXPECT_EQ(peek(reader, 0).value().size(), 0U);
    auto const p = peek(reader, 4);
    EXPECT_EQ(text_of(p.value()).substr(0, 4), "abcd");
    EXPECT_EQ(text_of(peek(reader, 4).value()).substr(0, 4), "abcd");
    reader.consume(3);
    EXPECT_EQ(text_of(peek(reader, 5).value()).substr(0, 5), "defgh");
    auto const more = peek(reader, 6);
    EXPECT_EQ(more.error(), condition::truncated);
    EXPECT_EQ(more.bytes_transferred(), 5U);
    EXPECT_EQ(peek(reader, 7).error(), std::errc::message_size);
    reader.consume(5);
    EXPECT_EQ(peek(reader, 1).error(), condition::end_of_stream);
  }
}

TEST(buffered_reader, tells_an_error_after_the_bytes_that_came_with_it) {
  scripted s{.source = "abcdefgh", .reads = {{3, broken}}};
  unio::buffered_reader reader(s, 16);
  std::array<char, 2> room{};
  EXPECT_EQ(text_of(run_here(unio::read(reader, room)).value()), "ab");
  auto const r = run_here(unio::read(reader, room));
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 1U);
  EXPECT_EQ(text_of(run_here(unio::read(reader, room)).value()), "de") << "it is told once";
}

TEST(buffered_reader, keeps_what_had_come_when_it_is_stopped) {
  auto p = pipe();
  p.writer.write(std::string_view("abc")).value();
  unio::buffered_reader reader(p.reader, 16);
  unio::stop_source stop;
  {
    beside peeking(awaited<io_result<const_buffer>>(reader.co_peek(5)), {.stop = stop.get_token()});
    peeking.until_it_waits();
    stop.request_stop();
    EXPECT_EQ(peeking.get().error(), condition::canceled);
    EXPECT_EQ(peeking.get().bytes_transferred(), 3U);
  }
  EXPECT_EQ(peek(reader, 5, 2ms).error(), condition::timed_out);
  EXPECT_EQ(text_of(reader.buffered()), "abc");
}

TEST(buffered_reader, takes_views_of_a_stream_into_its_memory) {
  viewed v{.source = numbered(50), .most = 7};
  unio::buffered_reader reader(v, 10);
  std::string room(50, '-');
  for (std::size_t at = 0; at != 50; at += 5)
    EXPECT_EQ(run_here(unio::read(reader, mutable_buffer(room.data() + at, 5))).bytes_transferred(), 5U);
  EXPECT_EQ(room, v.source);
}

// ---- lines ------------------------------------------------------------------------------------------------

task<std::vector<std::string>> all_lines(unio::line_reader& from, std::error_code& why) {
  std::vector<std::string> all;
  for (;;) {
    auto const line = co_await from.next();
    if (!line.has_value()) {
      why = line.error();
      co_return all;
    }
    all.emplace_back(*line);
  }
}

TEST(lines, are_what_is_between_the_ends_of_lines_however_short_the_transfers_are) {
  std::string const text = "one\n\ntwo\r\n\r\nthree\rfour\n\nlast";
  std::vector<std::string> const expected{"one", "", "two", "", "three\rfour", "", "last"};
  for (std::size_t most = 1; most <= text.size(); ++most)
    for (std::size_t memory = 11; memory <= 40; ++memory) {
      scripted s{.source = text, .most = most};
      std::string place(memory, '\0');
      auto reader = unio::lines(s, mutable_buffer(place));
      std::error_code why;
      ASSERT_EQ(run_here(all_lines(reader, why)), expected) << most << ' ' << memory;
      EXPECT_EQ(why, condition::end_of_stream);
    }
}

TEST(lines, come_in_a_loop_over_a_socket) {
  auto [a, b] = unio::socket_handle::pair().value();
  auto const body = [](unio::socket_handle& from) -> task<int> {
    auto text = unio::lines(from);
    int sum = 0;
    while (auto line = co_await text.next()) sum += std::atoi(std::string(*line).c_str());
    co_return sum;
  };
  beside summing(body(b));
  for (std::string_view const part : {"1", "2\n3", "0", "\n", "100"}) {
    a.write(part).value();
    summing.until_it_waits();
  }
  a.close().value();
  EXPECT_EQ(summing.get(), 12 + 30 + 100);
}

task<io_result<std::string_view>> next_line(unio::line_reader& r, deadline d = {}) {
  co_return co_await r.next(d);
}

TEST(lines, that_do_not_fit_are_refused_and_stay) {
  scripted s{.source = "short\n0123456789abcdef\nafter\n"};
  auto reader = unio::lines(s, 8);
  EXPECT_EQ(run_here(next_line(reader)).value(), "short");
  for (int i = 0; i != 2; ++i) {
    auto const r = run_here(next_line(reader));
    EXPECT_EQ(r.error(), std::errc::message_size);
    EXPECT_EQ(r.bytes_transferred(), 8U);
    EXPECT_EQ(text_of(reader.buffered()), "01234567");
  }
  reader.consume(8);
  EXPECT_EQ(run_here(next_line(reader)).error(), std::errc::message_size);
  reader.consume(8);
  EXPECT_EQ(run_here(next_line(reader)).value(), "");
  EXPECT_EQ(run_here(next_line(reader)).value(), "after");
}

TEST(lines, of_exactly_the_memory_fit_with_their_end) {
  scripted s{.source = "1234567\n1234567\n12345678"};
  auto reader = unio::lines(s, 8);
  EXPECT_EQ(run_here(next_line(reader)).value(), "1234567");
  EXPECT_EQ(run_here(next_line(reader)).value(), "1234567");
  EXPECT_EQ(run_here(next_line(reader)).error(), std::errc::message_size) << "who knows what follows";
}

TEST(lines, keep_their_beginning_when_the_wait_for_the_rest_ends) {
  auto p = pipe();
  auto reader = unio::lines(p.reader);
  p.writer.write(std::string_view("whole\nbegin")).value();
  EXPECT_EQ(run_here(next_line(reader)).value(), "whole");
  auto r = run_here(next_line(reader, 2ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 5U);
  unio::stop_source stop;
  {
    beside waiting(next_line(reader), {.stop = stop.get_token()});
    waiting.until_it_waits();
    stop.request_stop();
    EXPECT_EQ(waiting.get().error(), condition::canceled);
    EXPECT_EQ(waiting.get().bytes_transferred(), 5U);
  }
  p.writer.write(std::string_view("ning\n")).value();
  EXPECT_EQ(run_here(next_line(reader)).value(), "beginning");
}

TEST(lines, that_came_before_an_error_come_before_it) {
  scripted s{.source = "a\nb\nc", .reads = {{5, broken}}};
  auto reader = unio::lines(s);
  EXPECT_EQ(run_here(next_line(reader)).value(), "a");
  EXPECT_EQ(run_here(next_line(reader)).value(), "b");
  EXPECT_EQ(run_here(next_line(reader)).error(), broken);
  EXPECT_EQ(run_here(next_line(reader)).value(), "c");
}

// ---- buffered writing -------------------------------------------------------------------------------------

TEST(buffered_writer, writes_small_pieces_together_when_it_is_flushed) {
  scripted s;
  unio::buffered_writer writer(s, 64);
  for (std::string_view const piece : {"a", "bc", "def"})
    EXPECT_TRUE(run_here(unio::write(writer, piece)).has_value());
  EXPECT_EQ(s.calls, 0);
  EXPECT_EQ(text_of(writer.unwritten()), "abcdef");
  EXPECT_EQ(run_here(writer.co_flush()).bytes_transferred(), 6U);
  EXPECT_EQ(s.sink, "abcdef");
  EXPECT_EQ(s.calls, 1);
  EXPECT_TRUE(run_here(writer.co_flush()).has_value());
  EXPECT_EQ(s.calls, 1);
}

TEST(buffered_writer, is_byte_exact_for_every_size_of_memory_piece_and_transfer) {
  std::string const text = numbered(25);
  for (std::size_t memory = 0; memory <= 12; ++memory)
    for (std::size_t piece = 1; piece <= 13; ++piece)
      for (std::size_t most = 1; most <= 12; ++most) {
        scripted s{.most = most};
        std::string place(memory, '\0');
        unio::buffered_writer writer(s, mutable_buffer(place));
        for (std::size_t at = 0; at < 25; at += piece)
          ASSERT_TRUE(run_here(unio::write(writer, std::string_view(text).substr(at, piece))).has_value());
        ASSERT_EQ(s.sink + std::string(text_of(writer.unwritten())), text);
        ASSERT_TRUE(run_here(writer.co_flush()).has_value());
        ASSERT_EQ(s.sink, text);
      }
}

TEST(buffered_writer, keeps_what_could_not_be_written) {
  scripted s{.writes = {{2}, {1, broken}}};
  unio::buffered_writer writer(s, 8);
  EXPECT_TRUE(run_here(unio::write(writer, std::string_view("abcdefgh"))).has_value())
      << "straight through: 2";
  // The first two bytes went straight to the stream, for they were as many as the memory; the rest waits.
  std::string all = s.sink + std::string(text_of(writer.unwritten()));
  EXPECT_EQ(all, "abcdefgh");
  io_result<void> const r = run_here(writer.co_flush());
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 1U);
  EXPECT_EQ(s.sink + std::string(text_of(writer.unwritten())), "abcdefgh");
  EXPECT_TRUE(run_here(writer.co_flush()).has_value());
  EXPECT_EQ(s.sink, "abcdefgh");
}

TEST(buffered_writer, that_cannot_flush_takes_none_of_the_next_piece) {
  scripted s{.writes = {{3, broken}}};
  unio::buffered_writer writer(s, 4);
  EXPECT_EQ(run_here(unio::write(writer, std::string_view("abc"))).bytes_transferred(), 3U);
  auto const r = run_here(unio::write(writer, std::string_view("defg")));
  EXPECT_EQ(r.error(), broken);
  std::size_t const taken = r.bytes_transferred();
  EXPECT_EQ(taken, 1U) << "what still fitted";
  EXPECT_EQ(s.sink + std::string(text_of(writer.unwritten())), "abcd");
}

TEST(buffered_writer, that_is_stopped_while_flushing_goes_on_where_it_was) {
  auto p = pipe();
  std::string const text = numbered(200'000);
  unio::buffered_writer writer(p.writer, text.size() + 1);
  EXPECT_TRUE(run_here(unio::write(writer, text)).has_value());
  unio::stop_source stop;
  {
    beside flushing(writer.co_flush(), {.stop = stop.get_token()});
    flushing.until_it_waits();
    EXPECT_FALSE(flushing.done());
    stop.request_stop();
    EXPECT_EQ(flushing.get().error(), condition::canceled);
    EXPECT_EQ(flushing.get().bytes_transferred() + writer.unwritten().size(), text.size());
  }
  EXPECT_EQ(run_here(writer.co_flush(1ms)).error(), condition::timed_out);
  beside flushing(writer.co_flush());
  std::string room(text.size(), '-');
  EXPECT_TRUE(run_here(unio::read(p.reader, room)).has_value());
  EXPECT_EQ(room, text);
  EXPECT_TRUE(flushing.get().has_value());
}

TEST(buffered_stream, answers_line_by_line) {
  auto [a, b] = unio::socket_handle::pair().value();
  auto const echo = [](unio::socket_handle& s) -> task<int> {
    unio::buffered_stream stream(s, 64, 64);
    int count = 0;
    while (auto line = co_await stream.co_read_line()) {
      std::string const answer = "<" + std::string(*line) + ">\n";
      (co_await unio::write(stream, answer)).value();
      (co_await stream.co_flush()).value();
      ++count;
    }
    co_return count;
  };
  beside echoing(echo(b));
  for (std::string_view const line : {"one\n", "two\n"}) {
    a.write(line).value();
    std::string into;
    EXPECT_TRUE(run_here(unio::read_until(a, into, "\n")).has_value());
    EXPECT_EQ(into, "<" + std::string(line.substr(0, 3)) + ">\n");
  }
  a.close().value();
  EXPECT_EQ(echoing.get(), 2);
}

} // namespace
