// tls.hpp: TLS over sockets of the driver under test, over streams of other kinds, and over itself: both
// directions at once, stopped and destroyed at any point, ended in order and cut off.

#include "support/beside.hpp"
#include "support/test.hpp"
#include "tls/engines.hpp"

#include <unio/tls.hpp>

namespace {

using namespace test;

// Two connected sockets and TLS over them.
struct ends {
  unio::socket_handle client_socket, server_socket;
  tls_context of_client, of_server;
  tls_stream client, server;
  explicit ends(unio::tls_options const& client_options = {}, unio::tls_options const& server_options = {},
                std::string_view name = "example.test")
      : ends(unio::socket_handle::pair().value(), client_options, server_options, name) {}
  ends(unio::socket_pair p, unio::tls_options const& client_options, unio::tls_options const& server_options,
       std::string_view name)
      : client_socket(std::move(p.first)),
        server_socket(std::move(p.second)),
        of_client(test::client(client_options)),
        of_server(test::server(server_options)),
        client(client_socket, of_client, name),
        server(server_socket, of_server) {}
  void open() {
    beside accepting(server.co_handshake(10s));
    beside connecting(client.co_handshake(10s));
    EXPECT_TRUE(connecting.get().has_value()) << client.why();
    EXPECT_TRUE(accepting.get().has_value()) << server.why();
  }
};

task<io_result<mutable_buffers>> read_some(any_stream s, mutable_buffers room, deadline d = {}) {
  co_return co_await s.co_read(room, d);
}
// Reads to the end; what it was.
task<std::error_code> read_to_end(any_stream s, std::string& into) {
  std::array<char, 5000> room;
  for (;;) {
    io_result<mutable_buffers> const got = co_await s.co_read(room);
    if (!got.has_value()) co_return got.error();
    if (got->empty() || got.bytes_transferred() == 0) co_return std::error_code();
    into.append(room.data(), got.bytes_transferred());
  }
}

TEST(tls_stream, carries_bytes_both_ways) {
  for (unio::tls_version const v : versions) {
    ends e({.minimum = v, .maximum = v});
    e.open();
    EXPECT_EQ(e.client.connection().version(), v);
    std::array<char, 16> room{};
    beside reading(read_some(e.server, room));
    EXPECT_EQ(unio::run(unio::co_write(e.client, std::string_view("hello"))).value().bytes(), 5U);
    EXPECT_EQ(reading.get().value().bytes(), 5U);
    EXPECT_EQ(std::string_view(room.data(), 5), "hello");
    EXPECT_EQ(unio::run(unio::co_write(e.server, std::string_view("world!"))).value().bytes(), 6U);
    EXPECT_EQ(unio::run(read_some(e.client, room)).value().bytes(), 6U);
    EXPECT_EQ(std::string_view(room.data(), 6), "world!");
    mutable_buffers const none;
    EXPECT_EQ(unio::run(read_some(e.client, none)).value().bytes(), 0U) << "no room, no wait";
    EXPECT_EQ(unio::run(unio::co_write(e.client, std::string_view())).value().bytes(), 0U);
  }
}

TEST(tls_stream, a_pending_read_blocks_no_write) {
  ends e;
  e.open();
  std::array<char, 16> at_client{}, at_server{};
  beside client_reads(read_some(e.client, at_client));
  beside server_reads(read_some(e.server, at_server));
  client_reads.until_it_waits();
  ASSERT_TRUE(unio::run(unio::co_write(e.client, std::string_view("ping"))).has_value());
  EXPECT_EQ(server_reads.get().value().bytes(), 4U);
  EXPECT_FALSE(client_reads.done());
  ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("pong"))).has_value());
  EXPECT_EQ(client_reads.get().value().bytes(), 4U);
}

// The peer takes nothing, so the write waits; what the peer has written is read all the same.
TEST(tls_stream, a_pending_write_blocks_no_read) {
  ends e;
  (void)e.client_socket.send_buffer(4096);
  e.open();
  std::string const much = numbered(1'000'000);
  beside writing(unio::co_write(e.client, much));
  writing.until_it_waits();
  ASSERT_FALSE(writing.done());
  ASSERT_TRUE(unio::run(e.server.co_update_keys(true)).has_value()) << "which the client has to answer";
  ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("pong"))).has_value());
  std::array<char, 16> room{};
  EXPECT_EQ(unio::run(read_some(e.client, room, 10s)).value().bytes(), 4U);
  EXPECT_FALSE(writing.done());
  std::string got(much.size(), '\0');
  ASSERT_TRUE(unio::run(unio::co_read(e.server, got)).has_value());
  EXPECT_EQ(got, much);
  EXPECT_TRUE(writing.get().has_value());
}

// Much in both directions at once through small buffers, with updates of keys: odyssey#1459, openssl#8677.
TEST(tls_stream, both_directions_at_once_never_wait_for_each_other) {
  for (unio::tls_version const v : versions) {
    ends e({.minimum = v, .maximum = v});
    for (unio::socket_handle* s : {&e.client_socket, &e.server_socket}) {
      (void)s->send_buffer(4096);
      (void)s->receive_buffer(4096);
    }
    e.open();
    std::string const text = numbered(600'000);
    std::string at_client(text.size(), '\0'), at_server(text.size(), '\0');
    auto const write_with_updates = [](tls_stream& s, std::string_view all) -> task<bool> {
      for (std::size_t at = 0; at < all.size(); at += 50'000) {
        if (s.connection().version() == unio::tls_version::tls_1_3)
          (void)co_await s.co_update_keys(at % 100'000 == 0);
        auto const written = co_await unio::co_write(s, all.substr(at, 50'000));
        if (!written.has_value()) co_return false;
      }
      co_return true;
    };
    beside w1(write_with_updates(e.client, text));
    beside w2(write_with_updates(e.server, text));
    beside r1(unio::co_read(e.client, at_client, 30s));
    beside r2(unio::co_read(e.server, at_server, 30s));
    EXPECT_TRUE(r1.get().has_value()) << r1.get().error().message();
    EXPECT_TRUE(r2.get().has_value()) << r2.get().error().message();
    EXPECT_TRUE(w1.get());
    EXPECT_TRUE(w2.get());
    EXPECT_EQ(at_client, text);
    EXPECT_EQ(at_server, text);
  }
}

TEST(tls_stream, small_buffers_of_a_list_share_a_record) {
  ends e;
  e.open();
  std::string const a = "one ", b = "two ", c = "three";
  std::array<unio::const_buffer, 4> const list{
      unio::const_buffer(a), {}, unio::const_buffer(b), unio::const_buffer(c)};
  EXPECT_EQ(unio::run(unio::co_write(e.client, unio::const_buffers(list))).value().bytes(), 13U);
  std::array<char, 2000> raw;
  std::size_t const on_the_wire = e.server_socket.try_read(raw).value().bytes();
  EXPECT_EQ(on_the_wire, 13U + 5 + 1 + 16) << "a header, a type and a tag: RFC 8446 §5.2";
}

TEST(tls_stream, is_a_stream_for_all_that_takes_one) {
  ends e;
  e.open();
  unio::buffered_stream client(e.client);
  auto const talk = [](unio::buffered_stream& s) -> task<bool> {
    auto const written = co_await unio::co_write(s, std::string_view("first\nsecond\n"));
    auto const flushed = co_await s.co_flush();
    auto const line = co_await s.co_read_line(10s);
    co_return written.has_value() && flushed.has_value() && line.has_value() && *line == "answer";
  };
  auto const answer = [](tls_stream& s) -> task<std::string> {
    auto in = unio::lines(s);
    auto const first = co_await in.co_next();
    std::string all(first.has_value() ? *first : "?");
    auto const second = co_await in.co_next();
    all += second.has_value() ? *second : "?";
    (void)co_await unio::co_write(s, std::string_view("answer\n"));
    co_return all;
  };
  beside serving(answer(e.server));
  EXPECT_TRUE(unio::run(talk(client)));
  EXPECT_EQ(serving.get(), "firstsecond");
  // Copied from TLS to plain.
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  ASSERT_TRUE(unio::run(unio::co_write(e.server, numbered(30'000))).has_value());
  EXPECT_EQ(unio::run(unio::co_copy(e.client, writer, 30'000)).value(), 30'000U);
  std::string got(30'000, '\0');
  ASSERT_TRUE(unio::run(unio::co_read(reader, got)).has_value());
  EXPECT_EQ(got, numbered(30'000));
}

TEST(tls_stream, goes_over_itself) {
  ends outer;
  outer.open();
  tls_stream client(outer.client, outer.of_client, "example.test");
  tls_stream server(outer.server, outer.of_server);
  beside accepting(server.co_handshake(10s));
  ASSERT_TRUE(unio::run(client.co_handshake(10s)).has_value()) << client.why();
  ASSERT_TRUE(accepting.get().has_value());
  std::string const text = numbered(100'000);
  std::string got(text.size(), '\0');
  beside writing(unio::co_write(client, text));
  ASSERT_TRUE(unio::run(unio::co_read(server, got)).has_value());
  EXPECT_EQ(got, text);
  EXPECT_TRUE(writing.get().has_value());
}

// ---- ends -------------------------------------------------------------------------------------------------

TEST(tls_stream, ends_in_order_one_direction_at_a_time) {
  for (unio::tls_version const v : versions) {
    ends e({.minimum = v, .maximum = v});
    e.open();
    ASSERT_TRUE(unio::run(unio::co_write(e.client, std::string_view("last"))).has_value());
    ASSERT_TRUE(unio::run(e.client.co_shutdown(tls_stream::send, 10s)).has_value()) << "waits for no answer";
    std::string got;
    EXPECT_FALSE(unio::run(read_to_end(e.server, got)));
    EXPECT_EQ(got, "last");
    EXPECT_EQ(unio::run(unio::co_write(e.client, std::string_view("x"))).error(), std::errc::broken_pipe);
    ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("answer"))).has_value());
    ASSERT_TRUE(unio::run(e.server.co_shutdown()).has_value());
    std::string answer;
    EXPECT_FALSE(unio::run(read_to_end(e.client, answer)));
    EXPECT_EQ(answer, "answer");
  }
}

TEST(tls_stream, that_is_cut_off_is_truncated) {
  ends e;
  e.open();
  ASSERT_TRUE(unio::run(unio::co_write(e.client, std::string_view("most of it"))).has_value());
  (void)e.client_socket.shutdown(unio::socket_handle::side::send);
  std::string got;
  EXPECT_EQ(unio::run(read_to_end(e.server, got)), condition::truncated);
  EXPECT_EQ(got, "most of it");
  EXPECT_EQ(e.server.why(), "the connection ended without close_notify");
  EXPECT_EQ(unio::run(read_to_end(e.server, got)), condition::truncated) << "again";
  EXPECT_TRUE(unio::run(unio::co_write(e.server, std::string_view("but goes on"))).has_value());
  // In the middle of a handshake.
  ends half;
  (void)half.client_socket.close();
  EXPECT_EQ(unio::run(half.server.co_handshake(10s)).error(), condition::truncated);
  EXPECT_EQ(half.server.why(), "the connection ended in the middle of the handshake");
}

TEST(tls_stream, reports_errors_of_the_transport_as_they_come) {
  ends e;
  e.open();
  ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("unread"))).has_value());
  std::array<char, 100> raw;
  (void)raw;
  (void)e.client_socket.close(); // with something unread: a reset
  std::string got;
  EXPECT_EQ(unio::run(read_to_end(e.server, got)), std::errc::connection_reset);
  auto const sent = unio::run(unio::co_write(e.server, std::string_view("x")));
  EXPECT_EQ(sent.error(), std::errc::broken_pipe);
}

TEST(tls_stream, refusals_are_named_and_told_to_the_peer) {
  ends e({}, {}, "other.test");
  beside accepting(e.server.co_handshake(10s));
  auto const met = unio::run(e.client.co_handshake(10s));
  EXPECT_EQ(met.error().category(), unio::tls_verification_category());
  EXPECT_NE(e.client.why().find("'other.test'"), std::string::npos);
  EXPECT_NE(e.client.why().find("hostname mismatch"), std::string::npos);
  (void)accepting.get(); // in TLS 1.3 it may be done before it is told
  std::string got;
  EXPECT_EQ(unio::run(read_to_end(e.server, got)).category(), unio::tls_category());
  EXPECT_NE(e.server.why().find("alert"), std::string::npos) << e.server.why();
}

TEST(tls_stream, names_the_call_and_the_server_in_its_failures) {
  ends e({}, {}, "other.test");
  beside accepting(e.server.co_handshake(10s));
  EXPECT_EQ(unio::run(e.client.co_handshake(10s)).error().message(),
            "tls handshake other.test: hostname mismatch");
  EXPECT_EQ(unio::run(unio::co_write(e.client, std::string_view("x"))).error().message(),
            "tls handshake other.test: hostname mismatch");
  (void)accepting.get();
  // The transport's say where they come from themselves.
  ends half;
  unio::failure const late = unio::run(half.client.co_handshake(2ms)).error();
  EXPECT_EQ(late, condition::timed_out);
  EXPECT_EQ(late.object(), "descriptor " + std::to_string(half.client_socket.native_handle()));
}

TEST(tls_stream, nonsense_from_the_peer_is_an_error_of_this_connection) {
  ends e;
  ASSERT_TRUE(e.client_socket.write(std::string_view("GET / HTTP/1.1\r\n\r\n")).has_value());
  EXPECT_EQ(unio::run(e.server.co_handshake(10s)).error().category(), unio::tls_category());
  EXPECT_EQ(e.server.why(), "client: http request");
}

TEST(tls_stream, needs_a_handshake) {
  ends e;
  std::string got;
  EXPECT_EQ(unio::run(read_to_end(e.server, got)), std::errc::not_connected);
  EXPECT_EQ(unio::run(unio::co_write(e.server, std::string_view("x"))).error(), std::errc::not_connected);
  EXPECT_EQ(unio::run(e.server.co_shutdown()).error(), std::errc::not_connected);
  e.open();
}

// ---- deadlines, stops, destruction ------------------------------------------------------------------------

TEST(tls_stream, deadlines_bound_a_call_and_it_goes_on_afterwards) {
  ends e;
  EXPECT_EQ(unio::run(e.client.co_handshake(2ms)).error(), condition::timed_out);
  EXPECT_EQ(unio::run(e.client.co_handshake(deadline::zero())).error(), condition::would_block);
  e.open();
  std::array<char, 16> room{};
  EXPECT_EQ(unio::run(read_some(e.client, room, 2ms)).error(), condition::timed_out);
  EXPECT_EQ(unio::run(read_some(e.client, room, deadline::zero())).error(), condition::would_block);
  ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("pong"))).has_value());
  EXPECT_EQ(unio::run(read_some(e.client, room, deadline::zero())).value().bytes(), 4U);
}

TEST(tls_stream, a_stopped_read_loses_nothing) {
  ends e;
  e.open();
  std::array<char, 16> room{};
  unio::stop_source stop;
  beside reading(read_some(e.client, room), {.stop = stop.get_token()});
  reading.until_it_waits();
  stop.request_stop();
  EXPECT_EQ(reading.get().error(), condition::canceled);
  ASSERT_TRUE(unio::run(unio::co_write(e.server, std::string_view("pong"))).has_value());
  EXPECT_EQ(unio::run(read_some(e.client, room)).value().bytes(), 4U);
}

// What a stopped write has taken counts, and is sent before anything else.
TEST(tls_stream, a_stopped_write_says_what_it_has_taken_and_the_next_finishes_it) {
  ends e;
  (void)e.client_socket.send_buffer(4096);
  e.open();
  std::string const much = numbered(400'000);
  std::size_t taken = 0;
  int stopped = 0;
  for (; stopped != 10; ++stopped) {
    unio::stop_source stop;
    beside writing(unio::co_write(e.client, std::string_view(much).substr(taken)),
                   {.stop = stop.get_token()});
    writing.until_it_waits();
    stop.request_stop();
    taken += writing.get().bytes_transferred();
    EXPECT_EQ(writing.get().error(), condition::canceled);
  }
  EXPECT_GT(taken, 0U);
  EXPECT_LT(taken, much.size());
  EXPECT_LE(e.client.connection().queued(), unio::tls_engine::output_limit);
  EXPECT_EQ(unio::run(e.client.co_flush(1ms)).error(), condition::timed_out);
  beside writing(unio::co_write(e.client, std::string_view(much).substr(taken)));
  std::string got(much.size(), '\0');
  ASSERT_TRUE(unio::run(unio::co_read(e.server, got)).has_value());
  EXPECT_EQ(got, much);
  EXPECT_TRUE(writing.get().has_value());
}

TEST(tls_stream, a_direction_whose_coroutine_was_destroyed_is_aborted_and_the_other_goes_on) {
  ends e;
  e.open();
  std::array<char, 16> room{};
  {
    auto const executor = unio::this_thread::multiplexer().executor();
    unio::environment const here{.executor = executor, .multiplexer = &unio::this_thread::multiplexer()};
    task<io_result<mutable_buffers>> t = read_some(e.client, room);
    t.child().promise().set_environment(here);
    t.child().promise().set_continuation(std::noop_coroutine());
    t.child().resume();
    for (int i = 0; i != 5; ++i) (void)unio::this_thread::multiplexer().try_run();
    ASSERT_FALSE(t.child().done());
  }
  unio::failure const aborted = unio::run(read_some(e.client, room)).error();
  EXPECT_EQ(aborted, std::errc::connection_aborted);
  EXPECT_EQ(aborted.message(), "tls read example.test: " + aborted.code().message());
  ASSERT_TRUE(unio::run(unio::co_write(e.client, std::string_view("ping"))).has_value());
  EXPECT_EQ(unio::run(read_some(e.server, room)).value().bytes(), 4U);
}

// ---- a transport that is no handle ------------------------------------------------------------------------

// A stream that moves a few bytes at a time, knows no deadline, and fails when it is told to.
struct narrow {
  unio::socket_handle& socket;
  std::size_t most;
  std::size_t reads_left = static_cast<std::size_t>(-1);
  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request) {
    if (reads_left == 0)
      co_return io_result<mutable_buffers>(std::error_code(EPROTO, std::system_category()), 0);
    --reads_left;
    co_return co_await socket.co_read(request.buffers.first(std::min(most, request.buffers.bytes())));
  }
  task<io_result<unio::const_buffers>> co_write(io_request<unio::const_buffers> request) {
    co_return co_await socket.co_write(request.buffers.first(std::min(most, request.buffers.bytes())));
  }
};

TEST(tls_stream, goes_over_any_stream_a_byte_at_a_time) {
  for (std::size_t const most : {1U, 7U, 100U}) {
    unio::socket_pair p = unio::socket_handle::pair().value();
    narrow first{p.first, most}, second{p.second, most};
    tls_context const of_client = test::client(), of_server = test::server();
    tls_stream client(first, of_client, "example.test"), server(second, of_server);
    beside accepting(server.co_handshake());
    ASSERT_TRUE(unio::run(client.co_handshake()).has_value()) << client.why();
    ASSERT_TRUE(accepting.get().has_value());
    std::string const text = numbered(3000);
    std::string got(text.size(), '\0');
    beside writing(unio::co_write(client, text));
    ASSERT_TRUE(unio::run(unio::co_read(server, got)).has_value());
    EXPECT_EQ(got, text);
    EXPECT_TRUE(writing.get().has_value());
    second.reads_left = 0;
    std::array<char, 10> room;
    EXPECT_EQ(unio::run(read_some(server, room)).error(), std::errc::protocol_error);
  }
}

// The kernel says of a connection that it has given up what a deadline says.
TEST(tls_stream, write_that_a_lost_connection_does_not_take_is_no_success) {
  struct mortal {
    unio::socket_handle& socket;
    bool is_lost = false;
    task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request) {
      co_return co_await socket.co_read(request);
    }
    task<io_result<unio::const_buffers>> co_write(io_request<unio::const_buffers> request) {
      if (is_lost)
        co_return io_result<unio::const_buffers>(std::error_code(ETIMEDOUT, std::system_category()), 0);
      co_return co_await socket.co_write(request);
    }
  };
  for (deadline const limit : {deadline(), deadline(60s)}) {
    unio::socket_pair p = unio::socket_handle::pair().value();
    mortal first{p.first};
    tls_context const of_client = test::client(), of_server = test::server();
    tls_stream client(first, of_client, "example.test"), server(p.second, of_server);
    beside accepting(server.co_handshake());
    ASSERT_TRUE(unio::run(client.co_handshake()).has_value()) << client.why();
    ASSERT_TRUE(accepting.get().has_value());
    first.is_lost = true;
    EXPECT_EQ(unio::run(client.co_write(unio::const_buffer("x", 1), limit)).error(), condition::timed_out);
    // Nor is it sent when that is possible again: its writer may have written it elsewhere by then.
    first.is_lost = false;
    EXPECT_EQ(unio::run(client.co_flush(limit)).error(), condition::timed_out);
    EXPECT_EQ(unio::run(client.co_write(unio::const_buffer("x", 1), limit)).error(), condition::timed_out);
    char room[10];
    EXPECT_EQ(unio::run(server.co_read(room, deadline::zero())).error(), condition::would_block);
  }
}

// The transport ends after each number of reads: an error of the transport or of TLS, and no more.
TEST(tls_stream, transports_that_fail_at_any_point_fail_the_connection) {
  for (std::size_t n = 0; n != 60; ++n) {
    unio::socket_pair p = unio::socket_handle::pair().value();
    narrow first{p.first, 50}, second{p.second, 50, n};
    tls_context const of_client = test::client(), of_server = test::server();
    tls_stream client(first, of_client, "example.test"), server(second, of_server);
    unio::stop_source stop;
    beside connecting(client.co_handshake(), {.stop = stop.get_token()});
    auto const met = unio::run(server.co_handshake());
    if (!met.has_value()) {
      EXPECT_EQ(met.error(), std::errc::protocol_error);
    }
    (void)p.second.close();
    stop.request_stop();
    (void)connecting.get();
  }
}

} // namespace
