// unio/asio.hpp, asio_stream: Asio's algorithms on streams of unio's.

#include "asio_flavour.hpp"

#include <unio/buffered_stream.hpp>
#include <unio/pipe_handle.hpp>

#include <atomic>
#include <list>

namespace {

using namespace asio_tests;
using stream = unio::asio_stream<unio::socket_handle>;

struct asio_stream : ::testing::Test {
  unio::asio_context context;
  ends e{context};
};

TEST_F(asio_stream, has_the_types_that_asio_looks_for) {
  static_assert(std::is_same_v<stream::executor_type, unio::asio_executor>);
  static_assert(std::is_same_v<stream::lowest_layer_type, stream>);
  static_assert(std::is_same_v<stream::wrapped_type, unio::socket_handle>);
  using other = stream::rebind_executor<asio::any_io_executor>::other;
  static_assert(std::is_same_v<other::executor_type, asio::any_io_executor>);
  static_assert(std::is_nothrow_move_constructible_v<stream>);
  EXPECT_EQ(e.a.get_executor(), context.get_executor());
  EXPECT_EQ(&e.a.lowest_layer(), &e.a);
  EXPECT_EQ(e.a.wrapped().own_multiplexer(), &context.multiplexer());
}

TEST_F(asio_stream, reads_and_writes_all_with_asios_algorithms) {
  std::string const sent(300'000, 'x');
  std::string got(sent.size(), ' ');
  outcome written, read;
  asio::async_write(e.a, asio::buffer(sent), written.handler());
  asio::async_read(e.b, asio::buffer(got), read.handler());
  context.run();
  EXPECT_EQ(written.bytes, sent.size());
  EXPECT_EQ(read.bytes, sent.size());
  EXPECT_EQ(got, sent);
}

TEST_F(asio_stream, reads_until_a_delimiter) {
  std::string line;
  outcome o;
  e.b.write_some(asio::buffer("first\nsecond", 12));
  asio::async_read_until(e.a, asio::dynamic_buffer(line), '\n', o.handler());
  context.run();
  EXPECT_EQ(o.bytes, 6u);
}

TEST_F(asio_stream, reads_and_writes_synchronously) {
  std::array<char, 8> room{};
  asio_error_code ec;
  EXPECT_EQ(e.b.write_some(asio::buffer("abc", 3), ec), 3u);
  EXPECT_FALSE(ec);
  EXPECT_EQ(e.a.read_some(asio::buffer(room), ec), 3u);
  EXPECT_FALSE(ec);
  e.b.close();
  EXPECT_EQ(e.a.read_some(asio::buffer(room), ec), 0u);
  EXPECT_EQ(ec, asio::error::eof);
  EXPECT_THROW(e.a.read_some(asio::buffer(room)), unio::detail::asio_system_error);
  EXPECT_EQ(e.a.write_some(asio::buffer("abc", 3), ec), 0u);
  EXPECT_EQ(ec, asio::error::broken_pipe);
}

TEST_F(asio_stream, writes_all_with_asios_synchronous_algorithm) {
  std::string got(5, ' ');
  EXPECT_EQ(asio::write(e.a, asio::buffer("hello", 5)), 5u);
  EXPECT_EQ(asio::read(e.b, asio::buffer(got)), 5u);
  EXPECT_EQ(got, "hello");
}

TEST_F(asio_stream, says_eof_at_the_end) {
  outcome o;
  char c;
  e.b.close();
  e.a.async_read_some(asio::buffer(&c, 1), o.handler());
  context.run();
  EXPECT_EQ(o.ec, asio::error::eof);
}

TEST_F(asio_stream, completes_on_no_bytes_at_once_and_not_inside_of_the_call) {
  outcome read, written, list;
  std::vector<asio::mutable_buffer> const none;
  e.a.async_read_some(asio::mutable_buffer(), read.handler());
  e.a.async_write_some(asio::const_buffer(), written.handler());
  e.a.async_read_some(none, list.handler());
  EXPECT_FALSE(read.called || written.called || list.called);
  EXPECT_EQ(context.run(), 3u);
  EXPECT_TRUE(read.called && written.called && list.called);
  EXPECT_FALSE(read.ec || written.ec || list.ec);
  asio_error_code ec;
  EXPECT_EQ(e.a.read_some(none, ec), 0u);
  EXPECT_FALSE(ec);
}

TEST_F(asio_stream, skips_empty_buffers_of_a_sequence) {
  char c = 0;
  outcome o;
  std::array<asio::mutable_buffer, 3> const some{asio::mutable_buffer(), asio::buffer(&c, 1),
                                                 asio::mutable_buffer()};
  e.b.write_some(asio::buffer("x", 1));
  e.a.async_read_some(some, o.handler());
  context.run();
  EXPECT_EQ(o.bytes, 1u);
  EXPECT_EQ(c, 'x');
}

TEST_F(asio_stream, takes_sequences_of_any_length) {
  std::vector<std::array<char, 3>> parts(1000, {'a', 'b', 'c'});
  std::vector<asio::const_buffer> from;
  for (auto const& p : parts) from.push_back(asio::buffer(p));
  std::string got(3000, ' ');
  std::list<asio::mutable_buffer> to; // no random access
  for (std::size_t i = 0; i != 100; ++i) to.push_back(asio::buffer(got.data() + 30 * i, 30));
  outcome written, read;
  asio::async_write(e.a, from, written.handler());
  asio::async_read(e.b, to, read.handler());
  context.run();
  EXPECT_EQ(written.bytes, 3000u);
  EXPECT_EQ(read.bytes, 3000u);
  for (std::size_t i = 0; i != 3000; i += 3) ASSERT_EQ(got.substr(i, 3), "abc");
}

TEST_F(asio_stream, takes_the_first_64_buffers_at_once) {
  std::vector<char> bytes(100, 'x');
  std::vector<asio::const_buffer> from;
  for (auto const& b : bytes) from.push_back(asio::buffer(&b, 1));
  outcome o;
  e.a.async_write_some(from, o.handler());
  context.run();
  EXPECT_EQ(o.bytes, 64u);
  EXPECT_EQ(e.a.write_some(from), 64u);
}

TEST_F(asio_stream, cancels_what_is_pending) {
  char c;
  outcome o;
  e.a.async_read_some(asio::buffer(&c, 1), o.handler());
  context.poll();
  EXPECT_EQ(e.a.cancel(), 1u);
  EXPECT_FALSE(o.called);
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
  EXPECT_EQ(e.a.cancel(), 0u);
}

TEST_F(asio_stream, aborts_what_is_pending_when_it_is_closed) {
  char c;
  outcome o;
  e.a.async_read_some(asio::buffer(&c, 1), o.handler());
  context.poll();
  e.a.close();
  EXPECT_FALSE(o.called);
  EXPECT_FALSE(e.a.is_open());
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
}

TEST_F(asio_stream, calls_no_handler_inside_of_close) {
  char c;
  bool inside = false;
  outcome o;
  e.a.async_read_some(asio::buffer(&c, 1), [&](asio_error_code ec, std::size_t) {
    EXPECT_FALSE(inside);
    o.ec = ec;
  });
  asio::post(context, [&] {
    inside = true;
    e.a.close();
    inside = false;
  });
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
}

TEST_F(asio_stream, aborts_what_is_pending_when_it_is_destroyed) {
  char c;
  outcome o;
  {
    auto gone = std::move(e.a);
    gone.async_read_some(asio::buffer(&c, 1), o.handler());
    context.poll();
  }
  EXPECT_FALSE(o.called);
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
}

TEST_F(asio_stream, may_be_moved_while_something_is_pending) {
  char c;
  outcome o;
  e.a.async_read_some(asio::buffer(&c, 1), o.handler());
  context.poll();
  auto moved = std::move(e.a);
  EXPECT_EQ(e.a.cancel(), 0u); // NOLINT: what a moved one says
  e.b.write_some(asio::buffer("x", 1));
  context.restart();
  context.run();
  EXPECT_EQ(o.bytes, 1u);
  outcome second;
  moved.async_read_some(asio::buffer(&c, 1), second.handler());
  context.restart();
  context.poll();
  e.a = std::move(moved);
  EXPECT_EQ(e.a.cancel(), 1u);
  context.restart();
  context.run();
  EXPECT_EQ(second.ec, asio::error::operation_aborted);
}

TEST_F(asio_stream, wraps_a_reference) {
  auto pair = unio::socket_handle::pair().value();
  unio::asio_stream<unio::socket_handle&> s(context, pair.first);
  outcome o;
  s.async_write_some(asio::buffer("abc", 3), o.handler());
  context.run();
  EXPECT_EQ(o.bytes, 3u);
}

TEST_F(asio_stream, wraps_a_stream_that_is_no_handle) {
  auto pair = unio::socket_handle::pair().value();
  unio::buffered_stream inner(pair.first);
  unio::asio_stream<unio::buffered_stream&> s(context, inner);
  std::string got(5, ' ');
  outcome read;
  ASSERT_TRUE(pair.second.write(unio::const_buffer("hello")).has_value());
  asio::async_read(s, asio::buffer(got), read.handler());
  context.run();
  EXPECT_EQ(got, "hello");
  outcome ended;
  ASSERT_TRUE(pair.second.close().has_value());
  context.restart();
  s.async_read_some(asio::buffer(got), ended.handler());
  context.run();
  EXPECT_EQ(ended.ec, asio::error::eof);
}

TEST_F(asio_stream, wraps_a_stream_that_is_no_handle_on_a_context_of_asios_own) {
  asio::io_context other;
  auto pair = unio::socket_handle::pair().value();
  unio::buffered_stream inner(pair.first);
  unio::asio_stream<unio::buffered_stream&, asio::any_io_executor> s(other.get_executor(), inner);
  std::array<char, 5> got{};
  ASSERT_TRUE(pair.second.write(unio::const_buffer("hello")).has_value());
  EXPECT_EQ(s.read_some(asio::buffer(got)), 5u);
  EXPECT_EQ(std::string_view(got.data(), got.size()), "hello");
  EXPECT_EQ(s.write_some(asio::buffer(got)), 5u);
}

TEST_F(asio_stream, takes_a_handle_whose_multiplexer_another_thread_runs) {
  std::atomic<unio::io_multiplexer*> theirs = nullptr;
  std::atomic<bool> ends = false;
  std::jthread runner([&] {
    theirs = &unio::this_thread::multiplexer();
    while (!ends) (void)theirs.load()->try_run_for(1ms);
  });
  while (theirs == nullptr) std::this_thread::yield();
  int rounds = 0;
  {
    auto pair = unio::socket_handle::pair().value();
    pair.first.set_multiplexer(theirs);
    pair.second.set_multiplexer(theirs);
    unio::asio_stream<unio::socket_handle> a(context, std::move(pair.first)),
        b(context, std::move(pair.second));
    std::array<char, 4> bytes{};
    int left = 0;
    // Both directions, of which one ends while the other begins.
    std::function<void(asio_error_code, std::size_t)> ended = [&](asio_error_code ec, std::size_t) {
      EXPECT_FALSE(ec);
      if (--left > 0 || ++rounds > 1000) return;
      left = 4;
      a.async_read_some(asio::buffer(&bytes[0], 1), ended);
      b.async_write_some(asio::buffer(&bytes[1], 1), ended);
      a.async_write_some(asio::buffer(&bytes[2], 1), ended);
      b.async_read_some(asio::buffer(&bytes[3], 1), ended);
    };
    ended({}, 0);
    context.run_for(30s);
  }
  EXPECT_EQ(rounds, 1001);
  ends = true;
}

TEST_F(asio_stream, works_with_an_executor_of_any_type) {
  auto pair = unio::socket_handle::pair().value();
  unio::asio_stream<unio::socket_handle, asio::any_io_executor> s(
      asio::any_io_executor(context.get_executor()), std::move(pair.first));
  outcome o;
  s.async_write_some(asio::buffer("abc", 3), o.handler());
  EXPECT_EQ(context.run(), 1u);
  EXPECT_EQ(o.bytes, 3u);
}

TEST_F(asio_stream, works_on_a_strand) {
  auto pair = unio::socket_handle::pair().value();
  auto strand = asio::make_strand(context);
  unio::asio_stream<unio::socket_handle, decltype(strand)> s(strand, std::move(pair.first));
  bool on_strand = false;
  s.async_write_some(asio::buffer("abc", 3),
                     [&](asio_error_code, std::size_t) { on_strand = strand.running_in_this_thread(); });
  context.run();
  EXPECT_TRUE(on_strand);
}

TEST_F(asio_stream, has_a_default_token) {
  using own = asio::use_awaitable_t<unio::asio_executor>;
  auto pair = unio::socket_handle::pair().value();
  auto s = own::as_default_on(unio::asio_stream<unio::socket_handle>(context, std::move(pair.first)));
  std::size_t n = 0;
  asio::co_spawn(
      context.get_executor(),
      [&]() -> asio::awaitable<void, unio::asio_executor> {
        n = co_await s.async_write_some(asio::buffer("abc", 3));
      },
      asio::detached);
  context.run();
  EXPECT_EQ(n, 3u);
}

TEST_F(asio_stream, echoes_between_coroutines) {
  int rounds = 0;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    std::array<char, 64> room;
    for (;;) {
      auto const [ec, n] =
          co_await e.a.async_read_some(asio::buffer(room), tokens::as_tuple(asio::use_awaitable));
      if (ec) break;
      co_await asio::async_write(e.a, asio::buffer(room.data(), n), asio::use_awaitable);
    }
  });
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    std::array<char, 64> room;
    for (; rounds != 1000; ++rounds) {
      co_await asio::async_write(e.b, asio::buffer(room), asio::use_awaitable);
      co_await asio::async_read(e.b, asio::buffer(room), asio::use_awaitable);
    }
    e.b.close();
  });
  context.run();
  EXPECT_EQ(rounds, 1000);
}

TEST_F(asio_stream, moves_bytes_through_pipes) {
  auto pipe = unio::pipe_handle::anonymous().value();
  unio::asio_stream reader(context, std::move(pipe.reader));
  unio::asio_stream writer(context, std::move(pipe.writer));
  std::string got(3, ' ');
  outcome o;
  asio::async_read(reader, asio::buffer(got), o.handler());
  asio::async_write(writer, asio::buffer("abc", 3), asio::detached);
  context.run();
  EXPECT_EQ(got, "abc");
}

} // namespace
