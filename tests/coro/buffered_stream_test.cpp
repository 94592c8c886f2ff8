// buffered_stream.hpp: buffers and lines, on pipes and sockets of the driver under test and on a scripted
// stream.

#include "coro/streams.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

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
          ASSERT_EQ(run_here(unio::co_read(reader, mutable_buffer(all.data() + at, n))).bytes_transferred(),
                    n);
        }
        ASSERT_EQ(all, text);
        char more = 0;
        ASSERT_EQ(run_here(unio::co_read(reader, mutable_buffer(&more, 1))).error(),
                  condition::end_of_stream);
      }
}

// What has an offset of its own where a buffered stream has none.
struct seeking {
  std::vector<unio::extent_type> offsets{};
  std::vector<std::size_t> sizes{};
  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request, deadline = {}) {
    note(request.offset, request.buffers.bytes());
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(request.buffers),
                                         request.buffers.bytes());
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request, deadline = {}) {
    note(request.offset, request.buffers.bytes());
    co_return io_result<const_buffers>(unio::result<const_buffers>(request.buffers), request.buffers.bytes());
  }
  void note(unio::extent_type offset, std::size_t size) {
    offsets.push_back(offset);
    sizes.push_back(size);
  }
};

TEST(buffered_stream, ignores_offsets_also_of_what_goes_straight_through) {
  seeking s;
  unio::buffered_stream stream(s, 8, 8);
  char room[9] = {};
  std::array<std::size_t, 3> const steps{8, 3, 9};
  auto const transfers = [&]() -> task<> {
    for (std::size_t const n : steps) { // straight through; reads ahead; what was read ahead
      auto const got = co_await stream.co_read(io_request<mutable_buffers>(mutable_buffer(room, n), 100));
      EXPECT_EQ(got.bytes_transferred(), n == 9 ? 5u : n);
    }
    for (std::size_t const n : steps) { // straight through; is taken; is taken in part
      auto const put = co_await stream.co_write(io_request<const_buffers>(const_buffer(room, n), 100));
      EXPECT_EQ(put.bytes_transferred(), n == 9 ? 5u : n);
    }
    // When these are flushed.
    auto const put = co_await stream.co_write(io_request<const_buffers>(const_buffer(room, 9), 100));
    EXPECT_EQ(put.bytes_transferred(), 9u);
  };
  unio::run(transfers());
  EXPECT_EQ(s.sizes, (std::vector<std::size_t>{8, 8, 8, 8, 9}));
  EXPECT_EQ(s.offsets, std::vector<unio::extent_type>(5, unio::no_offset));
}

TEST(buffered_stream, asked_for_nothing_does_nothing) {
  seeking s;
  unio::buffered_stream stream(s, 8, 8);
  auto const transfers = [&]() -> task<> {
    auto const got = co_await stream.co_read(io_request<mutable_buffers>(mutable_buffer()));
    EXPECT_TRUE(got.has_value());
    auto const put = co_await stream.co_write(io_request<const_buffers>(const_buffer()));
    EXPECT_TRUE(put.has_value());
    EXPECT_TRUE((co_await stream.co_peek(0)).has_value());
    EXPECT_TRUE((co_await stream.co_flush()).has_value());
  };
  unio::run(transfers());
  EXPECT_TRUE(s.sizes.empty());
}

TEST(buffered_reader, death_of_who_consumes_more_than_is_there) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  scripted s{.source = "abc"};
  unio::buffered_reader reader(s, 8);
  EXPECT_DEATH(reader.consume(1), "more was consumed");
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
  EXPECT_EQ(text_of(run_here(unio::co_read(reader, room)).value()), "ab");
  auto const r = run_here(unio::co_read(reader, room));
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 1U);
  EXPECT_EQ(text_of(run_here(unio::co_read(reader, room)).value()), "de") << "it is told once";
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
    EXPECT_EQ(run_here(unio::co_read(reader, mutable_buffer(room.data() + at, 5))).bytes_transferred(), 5U);
  EXPECT_EQ(room, v.source);
}

// ---- lines ------------------------------------------------------------------------------------------------

task<std::vector<std::string>> all_lines(unio::line_reader& from, std::error_code& why) {
  std::vector<std::string> all;
  for (;;) {
    auto const line = co_await from.co_next();
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
    while (auto line = co_await text.co_next()) sum += std::atoi(std::string(*line).c_str());
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
  co_return co_await r.co_next(d);
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
    EXPECT_TRUE(run_here(unio::co_write(writer, piece)).has_value());
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
          ASSERT_TRUE(run_here(unio::co_write(writer, std::string_view(text).substr(at, piece))).has_value());
        ASSERT_EQ(s.sink + text_of(writer.unwritten()), text);
        ASSERT_TRUE(run_here(writer.co_flush()).has_value());
        ASSERT_EQ(s.sink, text);
      }
}

TEST(buffered_writer, keeps_what_could_not_be_written) {
  scripted s{.writes = {{2}, {1, broken}}};
  unio::buffered_writer writer(s, 8);
  EXPECT_TRUE(run_here(unio::co_write(writer, std::string_view("abcdefgh"))).has_value())
      << "straight through: 2";
  // The first two bytes went straight to the stream, for they were as many as the memory; the rest waits.
  std::string all = s.sink + text_of(writer.unwritten());
  EXPECT_EQ(all, "abcdefgh");
  io_result<void> const r = run_here(writer.co_flush());
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(r.bytes_transferred(), 1U);
  EXPECT_EQ(s.sink + text_of(writer.unwritten()), "abcdefgh");
  EXPECT_TRUE(run_here(writer.co_flush()).has_value());
  EXPECT_EQ(s.sink, "abcdefgh");
}

TEST(buffered_writer, that_cannot_flush_takes_none_of_the_next_piece) {
  scripted s{.writes = {{3, broken}}};
  unio::buffered_writer writer(s, 4);
  EXPECT_EQ(run_here(unio::co_write(writer, std::string_view("abc"))).bytes_transferred(), 3U);
  auto const r = run_here(unio::co_write(writer, std::string_view("defg")));
  EXPECT_EQ(r.error(), broken);
  std::size_t const taken = r.bytes_transferred();
  EXPECT_EQ(taken, 1U) << "what still fitted";
  EXPECT_EQ(s.sink + text_of(writer.unwritten()), "abcd");
}

TEST(buffered_writer, that_is_stopped_while_flushing_goes_on_where_it_was) {
  auto p = pipe();
  std::string const text = numbered(200'000);
  unio::buffered_writer writer(p.writer, text.size() + 1);
  EXPECT_TRUE(run_here(unio::co_write(writer, text)).has_value());
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
  EXPECT_TRUE(run_here(unio::co_read(p.reader, room)).has_value());
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
      (co_await unio::co_write(stream, answer)).value();
      (co_await stream.co_flush()).value();
      ++count;
    }
    co_return count;
  };
  beside echoing(echo(b));
  for (std::string_view const line : {"one\n", "two\n"}) {
    a.write(line).value();
    std::string into;
    EXPECT_TRUE(run_here(unio::co_read_until(a, into, "\n")).has_value());
    EXPECT_EQ(into, "<" + std::string(line.substr(0, 3)) + ">\n");
  }
  a.close().value();
  EXPECT_EQ(echoing.get(), 2);
}

} // namespace
