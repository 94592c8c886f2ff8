// stream.hpp: what is a stream; whole reads and writes; delimiters; the rest of a stream; copying. Buffers
// and lines are in buffered_stream_test.cpp.
//
// On pipes, sockets and files of the driver under test, and on a scripted stream. Where a stream has
// something, and how much of it comes at once, is tried at every byte.

#include "coro/streams.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

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
  EXPECT_EQ(text_of(run_here(unio::co_read(s, room)).value()), "xxx"); // run_here() checks the thread
}

// ---- read -------------------------------------------------------------------------------------------------

TEST(read, fills_the_buffer_however_short_the_transfers_are) {
  std::string const text = numbered(40);
  for (std::size_t most = 1; most <= text.size(); ++most) {
    SCOPED_TRACE(most);
    scripted s{.source = text + "more", .most = most};
    std::string room(text.size(), '-');
    auto const r = run_here(unio::co_read(s, room));
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
        auto const r = run_here(unio::co_read(s, mutable_buffers(list)));
        ASSERT_TRUE(r.has_value());
        ASSERT_EQ(room, text) << first << ' ' << second << ' ' << most;
        viewed v{.source = text, .most = most};
        room.assign(12, '-');
        ASSERT_TRUE(run_here(unio::co_read(v, mutable_buffers(list))).has_value());
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
    ASSERT_EQ(run_here(unio::co_read(s, mutable_buffers(list).first(7))).bytes_transferred(), 7U);
    ASSERT_EQ(room, "abcdefg---");
  }
}

TEST(read, of_nothing_asks_nothing) {
  scripted s;
  auto const r = run_here(unio::co_read(s, mutable_buffers()));
  EXPECT_TRUE(r.has_value());
  EXPECT_EQ(r.bytes_transferred(), 0U);
  std::array<mutable_buffer, 2> const empties{};
  EXPECT_TRUE(run_here(unio::co_read(s, mutable_buffers(empties))).has_value());
  EXPECT_EQ(s.calls, 0);
  auto p = pipe(); // nothing is in the pipe
  EXPECT_TRUE(run_here(unio::co_read(p.reader, mutable_buffers())).has_value());
}

TEST(read, tells_how_far_it_came_when_the_stream_ends) {
  for (std::size_t there = 0; there != 10; ++there)
    for (std::size_t most = 1; most <= 10; ++most) {
      scripted s{.source = numbered(there), .most = most};
      std::string room(10, '-');
      auto const r = run_here(unio::co_read(s, room));
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
      auto const r = run_here(unio::co_read(s, room));
      EXPECT_EQ(r.error(), broken);
      EXPECT_EQ(r.bytes_transferred(), before + beside);
      EXPECT_EQ(room.substr(0, before + beside), s.source.substr(0, before + beside));
    }
}

TEST(read, succeeds_when_the_error_came_with_the_last_byte) {
  scripted s{.source = "abc", .reads = {{3, broken}}};
  std::array<char, 3> room{};
  EXPECT_EQ(text_of(run_here(unio::co_read(s, room)).value()), "abc");
}

TEST(read, waits_for_all_of_it_on_pipes_and_sockets) {
  std::string const text = numbered(50);
  for (std::size_t piece = 1; piece <= text.size(); piece += 3) {
    auto p = pipe();
    auto [a, b] = unio::socket_handle::pair().value();
    std::string room(text.size(), '-'), other(text.size(), '-');
    beside from_pipe(unio::co_read(p.reader, room));
    beside from_socket(unio::co_read(b, other));
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
  EXPECT_EQ(text_of(run_here(unio::co_read(file, {mutable_buffer(room), 50})).value()), text.substr(50, 30));
  EXPECT_EQ(run_here(unio::co_read(file, {mutable_buffer(room), 90})).error(), condition::truncated);
  EXPECT_EQ(run_here(unio::co_read(file, {mutable_buffer(room), 100})).error(), condition::end_of_stream);
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
  EXPECT_EQ(run_here(unio::co_read(mapped, {mutable_buffer(room), 10})).bytes_transferred(), 30U);
  EXPECT_EQ(room, text.substr(10, 30));
}

TEST(read, is_bounded_as_a_whole_by_its_deadline) {
  auto p = pipe();
  std::array<char, 10> room{};
  p.writer.write(std::string_view("abc")).value();
  auto r = run_here(unio::co_read(p.reader, room, 2ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  r = run_here(unio::co_read(p.reader, room, std::chrono::steady_clock::now() - 1s));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 0U);
  r = run_here(unio::co_read(p.reader, room, std::chrono::system_clock::now() + 1ms));
  EXPECT_EQ(r.error(), condition::timed_out);
  p.writer.write(std::string_view("abc")).value();
  r = run_here(unio::co_read(p.reader, room, deadline::zero()));
  EXPECT_EQ(r.error(), condition::would_block);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  // A stream that knows no deadlines: it is looked at between its transfers.
  viewed v{.source = "abcdef", .most = 2};
  r = run_here(unio::co_read(v, mutable_buffer(room.data(), 6), std::chrono::steady_clock::now() - 1s));
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 2U);
}

TEST(read, that_is_stopped_tells_how_far_it_came) {
  auto p = pipe();
  unio::stop_source stop;
  std::array<char, 10> room{};
  p.writer.write(std::string_view("abc")).value();
  beside reading(unio::co_read(p.reader, room), {.stop = stop.get_token()});
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
    auto t = through_a_buffer ? unio::co_read(buffered, room) : unio::co_read(p.reader, room);
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
      auto const r = run_here(unio::co_write(s, const_buffers(list)));
      ASSERT_EQ(r.bytes_transferred(), 12U);
      ASSERT_EQ(text_of(r.value()), text);
      ASSERT_EQ(s.sink, text);
    }
}

TEST(write, of_nothing_asks_nothing) {
  scripted s;
  EXPECT_TRUE(run_here(unio::co_write(s, const_buffers())).has_value());
  EXPECT_EQ(s.calls, 0);
}

TEST(write, tells_how_far_it_came_when_the_stream_fails) {
  for (std::size_t before = 0; before != 9; ++before)
    for (std::size_t beside = 0; beside + before < 9; ++beside) {
      scripted s;
      if (before != 0) s.writes.push_back({before});
      s.writes.push_back({beside, broken});
      std::string const text = numbered(9);
      auto const r = run_here(unio::co_write(s, text));
      EXPECT_EQ(r.error(), broken);
      EXPECT_EQ(r.bytes_transferred(), before + beside);
      EXPECT_EQ(s.sink, text.substr(0, before + beside));
    }
  scripted s{.writes = {{3, broken}}};
  EXPECT_TRUE(run_here(unio::co_write(s, std::string_view("abc"))).has_value()) << "nothing was missing";
}

TEST(write, does_not_ask_a_stream_for_ever_that_takes_nothing) {
  scripted s{.writes = {{2}, {0}}};
  auto const r = run_here(unio::co_write(s, std::string_view("abc")));
  EXPECT_EQ(r.error(), std::errc::io_error);
  EXPECT_EQ(r.bytes_transferred(), 2U);
}

TEST(write, of_more_than_a_pipe_holds_waits_for_its_reader) {
  auto p = pipe();
  std::string const text = numbered(300'000);
  beside writing(unio::co_write(p.writer, text));
  std::string room(text.size(), '-');
  EXPECT_EQ(run_here(unio::co_read(p.reader, room)).bytes_transferred(), text.size());
  EXPECT_EQ(room, text);
  EXPECT_EQ(writing.get().bytes_transferred(), text.size());
}

TEST(write, that_is_stopped_or_out_of_time_tells_how_far_it_came) {
  auto p = pipe();
  std::string const text = numbered(300'000);
  unio::stop_source stop;
  std::size_t written = 0;
  {
    beside writing(unio::co_write(p.writer, text), {.stop = stop.get_token()});
    writing.until_it_waits();
    stop.request_stop();
    EXPECT_EQ(writing.get().error(), condition::canceled);
    written = writing.get().bytes_transferred();
  }
  EXPECT_GT(written, 0U);
  std::string room(written, '-');
  EXPECT_EQ(run_here(unio::co_read(p.reader, room, 10s)).bytes_transferred(), written);
  EXPECT_EQ(room, text.substr(0, written));
  auto const late = run_here(unio::co_write(p.writer, text, 2ms));
  EXPECT_EQ(late.error(), condition::timed_out);
  EXPECT_GT(late.bytes_transferred(), 0U);
  EXPECT_EQ(p.reader.try_read(room).has_value(), true);
}

TEST(write, to_nobody_fails_without_a_signal) {
  auto p = pipe();
  p.reader.close().value();
  EXPECT_EQ(run_here(unio::co_write(p.writer, std::string_view("abc"))).error(), std::errc::broken_pipe);
}

TEST(write, to_a_file_goes_on_from_its_offset) {
  auto file = unio::file_handle::temp_inode().value();
  EXPECT_TRUE(run_here(unio::co_write(file, {const_buffer("abc", 3), 5})).has_value());
  EXPECT_EQ(file.maximum_extent().value(), 8U);
}

TEST(write, takes_what_a_read_has_returned) {
  auto from = pipe();
  from.writer.write("what came").value();
  auto to = unio::socket_handle::pair().value();
  char first[4];
  char second[16];
  auto const carry = [&](unio::io_handle& in, unio::socket_handle& out) -> task<std::size_t> {
    mutable_buffer const room[] = {first, second};
    auto const got = co_await in.co_read(room);
    auto const whole = co_await unio::co_write(out, *got);
    auto const part = co_await out.co_write(*got);
    co_return whole.value().bytes() + part.value().bytes();
  };
  EXPECT_EQ(run_here(carry(from.reader, to.first)), 9U + 4U)
      << "one write leaves the piece that was cut to the next";
  from.writer.write("more").value();
  auto const got = from.reader.read(second).value();
  EXPECT_EQ(to.first.write(got).value().bytes(), 4U);
  unio::async_write described(to.first, got);
  EXPECT_EQ(described.request().buffers.bytes(), 4U);

  test::temporary_directory const d;
  d.write("file", "+mapped");
  auto mapped = unio::mapped_file_handle::mapped_file({}, d / "file").value();
  mutable_buffers const view = mapped.read(second).value();
  EXPECT_NE(static_cast<void*>(view.front().data()), static_cast<void*>(second));
  EXPECT_EQ(to.first.write(view).value().bytes(), 7U);
  std::array<char, 64> all{};
  EXPECT_EQ(text_of(to.second.read(all).value()), "what camewhatmore+mapped");
}

TEST(write, takes_a_buffer_of_a_pool) {
  unio::buffer_pool pool(1, 16);
  auto p = pipe();
  p.writer.write("lent").value();
  auto const lent = p.reader.receive(pool).value();
  auto to = unio::socket_handle::pair().value();
  EXPECT_EQ(to.first.write(lent).value().bytes(), 4U);
  EXPECT_EQ(run_here(unio::co_write(to.first, lent)).value().bytes(), 4U);
  std::array<char, 16> all{};
  EXPECT_EQ(text_of(to.second.read(all).value()), "lentlent");
}

TEST(write, of_a_string_literal_sends_no_nul) {
  auto p = pipe();
  EXPECT_EQ(run_here(unio::co_write(p.writer, "hello")).value().bytes(), 5U);
  EXPECT_EQ(p.writer.write(", you").value().bytes(), 5U);
  EXPECT_EQ(run_here([](unio::io_handle& h) -> task<std::size_t> {
              co_return (co_await h.co_write("\0!")).value().bytes();
            }(p.writer)),
            2U);
  std::array<char, 64> all{};
  EXPECT_EQ(text_of(p.reader.read(all).value()), std::string_view("hello, you\0!", 12));
}

// ---- read_until -------------------------------------------------------------------------------------------

TEST(read_until, finds_the_delimiter_wherever_the_transfers_are_split) {
  std::string const text = "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody";
  for (std::size_t most = 1; most <= text.size(); ++most) {
    scripted s{.source = text, .most = most};
    std::string into;
    auto const r = run_here(unio::co_read_until(s, into, "\r\n\r\n"));
    ASSERT_TRUE(r.has_value()) << most;
    EXPECT_EQ(into.substr(0, *r), text.substr(0, text.size() - 4));
    EXPECT_EQ(r.bytes_transferred(), into.size());
    EXPECT_EQ(into, text.substr(0, into.size())) << "what was read beyond is there, and nothing else";
  }
}

TEST(read_until, looks_at_what_is_there_first) {
  scripted s{.source = "never"};
  std::vector<char> into{'a', '\n', 'b'};
  auto const r = run_here(unio::co_read_until(s, into, "\n"));
  EXPECT_EQ(r.value(), 2U);
  EXPECT_EQ(r.bytes_transferred(), 0U);
  EXPECT_EQ(s.calls, 0);
  EXPECT_EQ(into.size(), 3U);
}

TEST(read_until, tells_the_end_from_what_was_cut_off) {
  scripted s{.source = "abc"};
  std::string into;
  auto r = run_here(unio::co_read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), condition::truncated);
  EXPECT_EQ(r.bytes_transferred(), 3U);
  EXPECT_EQ(into, "abc");
  into.clear();
  r = run_here(unio::co_read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), condition::end_of_stream);
  EXPECT_TRUE(into.empty());
}

TEST(read_until, is_bounded_by_the_size_that_is_allowed) {
  scripted s{.source = numbered(2000)};
  std::string into;
  auto const r = run_here(unio::co_read_until(s, {into, 700}, "\n"));
  EXPECT_EQ(r.error(), std::errc::message_size);
  EXPECT_EQ(into, s.source.substr(0, 700));
  EXPECT_EQ(s.at, 700U);
}

TEST(read_until, keeps_what_came_before_an_error_a_stop_or_a_deadline) {
  scripted s{.source = "abcdef", .reads = {{2}, {2, broken}}};
  std::string into = "0";
  auto r = run_here(unio::co_read_until(s, into, "\n"));
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 4U);
  EXPECT_EQ(into, "0abcd");

  scripted last{.source = "ab\ncd", .reads = {{5, broken}}};
  into.clear();
  EXPECT_EQ(run_here(unio::co_read_until(last, into, "\n")).value(), 3U)
      << "the delimiter came with the error";

  auto p = pipe();
  p.writer.write(std::string_view("xyz")).value();
  into.clear();
  EXPECT_EQ(run_here(unio::co_read_until(p.reader, into, "\n", 2ms)).error(), condition::timed_out);
  EXPECT_EQ(into, "xyz");
  unio::stop_source stop;
  beside reading(unio::co_read_until(p.reader, into, "\n"), {.stop = stop.get_token()});
  reading.until_it_waits();
  stop.request_stop();
  EXPECT_EQ(reading.get().error(), condition::canceled);
  EXPECT_EQ(into, "xyz");
}

// ---- read_all ---------------------------------------------------------------------------------------------

TEST(read_all, reads_to_the_end_however_short_the_transfers_are) {
  std::string const text = numbered(70);
  for (std::size_t most = 1; most <= text.size(); ++most) {
    scripted s{.source = text, .most = most};
    std::string into = "0";
    auto const r = run_here(unio::co_read_all(s, into));
    EXPECT_EQ(r.value(), text.size());
    EXPECT_EQ(r.bytes_transferred(), text.size());
    EXPECT_EQ(into, "0" + text);
  }
  viewed v{.source = text, .most = 7};
  std::vector<std::byte> bytes;
  EXPECT_EQ(run_here(unio::co_read_all(v, bytes)).value(), text.size());
  EXPECT_EQ(text_of(const_buffer(bytes)), text) << "of a stream that yields views, with another container";
}

TEST(read_all, of_a_stream_that_has_ended_appends_nothing) {
  scripted s;
  std::string into = "as it was";
  EXPECT_EQ(run_here(unio::co_read_all(s, into)).value(), 0U);
  EXPECT_EQ(into, "as it was");
}

TEST(read_all, is_bounded_by_its_limit_and_by_the_size_that_is_allowed) {
  std::string const text = numbered(40);
  for (std::size_t limit = 0; limit <= 45; ++limit)
    for (std::size_t const most : {1U, 7U, 100U})
      for (bool const by_size : {false, true}) {
        scripted s{.source = text, .most = most};
        std::string into = "0";
        unio::dynamic_buffer const to = by_size ? unio::dynamic_buffer(into, limit + 1) : into;
        auto const r = run_here(by_size ? unio::co_read_all(s, to) : unio::co_read_all(s, to, limit));
        std::size_t const n = std::min(limit, text.size());
        ASSERT_EQ(r.has_value(), limit >= text.size()) << limit;
        if (!r) {
          ASSERT_EQ(r.error(), std::errc::message_size);
        }
        ASSERT_EQ(r.bytes_transferred(), n);
        ASSERT_EQ(into, "0" + text.substr(0, n));
        ASSERT_EQ(s.at, std::min(limit + 1, text.size())) << "one byte more is read, to see whether there is";
      }
}

TEST(read_all, keeps_what_came_before_an_error_a_stop_or_a_deadline) {
  scripted s{.source = "abcdef", .reads = {{2}, {2, broken}}};
  std::string into;
  auto const r = run_here(unio::co_read_all(s, into));
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 4U);
  EXPECT_EQ(into, "abcd");
  scripted at_limit{.source = "abc", .reads = {{3}, {0, broken}}};
  into.clear();
  EXPECT_EQ(run_here(unio::co_read_all(at_limit, into, 3)).error(), broken);
  EXPECT_EQ(into, "abc");

  auto p = pipe();
  p.writer.write("xyz").value();
  into.clear();
  EXPECT_EQ(run_here(unio::co_read_all(p.reader, into, 2ms)).error(), condition::timed_out);
  EXPECT_EQ(into, "xyz");
  unio::stop_source stop;
  beside reading(unio::co_read_all(p.reader, into), {.stop = stop.get_token()});
  reading.until_it_waits();
  stop.request_stop();
  EXPECT_EQ(reading.get().error(), condition::canceled);
  EXPECT_EQ(into, "xyz");
}

TEST(read_all, reads_files_pipes_and_sockets_to_their_ends) {
  std::string const text = numbered(200'000);
  test::temporary_directory const d;
  d.write("file", text);
  auto file = unio::file_handle::file({}, d / "file").value();
  std::string into;
  EXPECT_EQ(unio::run(unio::co_read_all(file, into)).value(), text.size());
  EXPECT_EQ(into, text);
  EXPECT_EQ(unio::run(unio::co_read_all(file, into)).value(), 0U) << "it goes on where it was";

  auto p = pipe();
  beside reading(unio::co_read_all(p.reader, into));
  EXPECT_TRUE(run_here(unio::co_write(p.writer, text)));
  p.writer = {};
  EXPECT_EQ(reading.get().value(), text.size());
  EXPECT_EQ(into, text + text);
}

// ---- copy -------------------------------------------------------------------------------------------------

TEST(copy, moves_everything_however_short_both_sides_are) {
  std::string const text = numbered(30);
  for (std::size_t in = 1; in <= text.size(); ++in)
    for (std::size_t out = 1; out <= text.size(); ++out) {
      scripted from{.source = text, .most = in}, to{.most = out};
      auto const r = run_here(unio::co_copy(from, to));
      ASSERT_EQ(r.value(), text.size());
      ASSERT_EQ(to.sink, text);
    }
}

TEST(copy, stops_at_its_limit_and_reads_not_a_byte_more) {
  std::string const text = numbered(30);
  for (std::size_t limit = 0; limit <= 35; ++limit)
    for (std::size_t const most : {1U, 7U, 100U}) {
      scripted from{.source = text, .most = most}, to;
      auto const r = run_here(unio::co_copy(from, to, limit));
      EXPECT_EQ(r.value(), std::min<std::size_t>(limit, 30));
      EXPECT_EQ(from.at, *r);
      EXPECT_EQ(to.sink, text.substr(0, limit));
      auto a = pipe(), b = pipe(); // splices
      a.writer.write(text).value();
      a.writer.close().value();
      EXPECT_EQ(run_here(unio::co_copy(a.reader, b.writer, limit)).value(), *r);
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
    auto r = run_here(unio::co_copy(from, to));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 3);
    EXPECT_EQ(to.sink, text.substr(0, before + 3));

    scripted again{.source = text}, refuses;
    if (before != 0) refuses.writes.push_back({before});
    refuses.writes.push_back({2, broken});
    r = run_here(unio::co_copy(again, refuses));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 2);
    EXPECT_EQ(refuses.sink, text.substr(0, before + 2));

    // From a reader the rest is still there.
    scripted kept{.source = text}, refusing;
    if (before != 0) refusing.writes.push_back({before});
    refusing.writes.push_back({2, broken});
    unio::buffered_reader reader(kept, 64);
    r = run_here(unio::co_copy(reader, refusing));
    EXPECT_EQ(r.error(), broken);
    EXPECT_EQ(r.bytes_transferred(), before + 2);
    EXPECT_EQ(refusing.sink + text_of(reader.buffered()), text);
  }
  scripted from{.source = text}, to{.writes = {{0}}};
  EXPECT_EQ(run_here(unio::co_copy(from, to)).error(), std::errc::io_error);
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
      auto const feed = [&](unio::io_handle& into) { feeding.emplace(unio::co_write(into, text)); };
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
          draining.emplace(unio::co_read(q.reader, arrived));
          break;
        case kind::socket:
          sink = &t.first;
          draining.emplace(unio::co_read(t.second, arrived));
          break;
        default:
          out = unio::file_handle::file(
                    {}, directory.path() + "/out",
                    to == kind::appended ? unio::handle::mode::append : unio::handle::mode::write,
                    unio::handle::creation::always_new)
                    .value();
          sink = &out;
      }
      auto const r = run_here(unio::co_copy(*source, *sink, text.size()));
      EXPECT_EQ(r.value(), text.size());
      if (draining) {
        EXPECT_TRUE(draining->get().has_value());
      } else {
        auto written = unio::file_handle::file({}, directory.path() + "/out").value();
        EXPECT_EQ(run_here(unio::co_read(written, {mutable_buffer(arrived), 0})).bytes_transferred(),
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
  EXPECT_EQ(run_here(unio::co_copy(p.reader, q.writer)).value(), 3U);
  a.write(std::string_view("defg")).value();
  a.close().value();
  EXPECT_EQ(run_here(unio::co_copy(b, q.writer)).value(), 4U);
  std::array<char, 16> room{};
  EXPECT_EQ(text_of(q.reader.read(room).value()), "abcdefg");
}

void fill(unio::io_handle& h) {
  std::string const block(4096, '#');
  while (h.try_write(block).has_value()) continue;
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
        SCOPED_TRACE(::testing::Message() << splices << writing << in_time);
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
          beside copying(unio::co_copy(from, to, in_time ? deadline(3ms) : deadline()),
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
    beside copying(unio::co_copy(reader, t.first), {.stop = stop.get_token()});
    copying.until_it_waits();
    EXPECT_FALSE(copying.done());
    stop.request_stop();
    EXPECT_EQ(copying.get().error(), condition::canceled);
    EXPECT_EQ(copying.get().bytes_transferred(), 0U);
  }
  EXPECT_EQ(text_of(reader.buffered()), "kept");
  (void)drain(t.second);
  s.first.close().value();
  EXPECT_EQ(run_here(unio::co_copy(reader, t.first)).value(), 4U);
  EXPECT_EQ(drain(t.second), "kept");
}

TEST(copy, from_a_source_without_end_ends_with_its_deadline) {
  auto zeros = unio::file_handle::file({}, "/dev/zero").value();
  auto nowhere = unio::file_handle::file({}, "/dev/null", unio::handle::mode::write).value();
  std::size_t copied = 0; // nothing, if the processor was another's until the deadline
  for (auto bound = 5ms; copied == 0 && bound < 20s; bound *= 4) {
    auto const r = run_here(unio::co_copy(zeros, nowhere, bound));
    EXPECT_EQ(r.error(), condition::timed_out);
    copied = r.bytes_transferred();
  }
  EXPECT_GT(copied, 0U);
}

TEST(copy, may_be_destroyed_while_it_waits) {
  auto p = pipe(), q = pipe();
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto const executor = m.executor();
  unio::environment const e{.executor = executor, .multiplexer = &m};
  scripted to;
  for (bool const splices : {false, true}) {
    auto t = splices ? unio::co_copy(p.reader, q.writer) : unio::co_copy(p.reader, to);
    t.child().promise().set_environment(e);
    t.child().promise().set_continuation(std::noop_coroutine());
    t.child().resume();
    (void)m.try_run();
    t = {};
    p.writer.write(std::string_view("abc")).value();
    EXPECT_EQ(drain(p.reader), "abc");
  }
}

} // namespace
