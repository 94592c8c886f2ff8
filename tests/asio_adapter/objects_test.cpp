// unio/asio.hpp: the acceptor, the datagram socket, the timer.

#include "asio_flavour.hpp"

namespace {

using namespace asio_tests;

unio::endpoint const any_port = unio::endpoint::ipv4_loopback(0);

TEST(asio_acceptor, accepts_streams_and_connects_them) {
  unio::asio_context context;
  unio::asio_acceptor acceptor(context, any_port);
  bool done = false;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    auto s = co_await acceptor.async_accept(asio::use_awaitable);
    co_await asio::async_write(s, asio::buffer("hello", 5), asio::use_awaitable);
  });
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    unio::asio_stream s(context, unio::socket_handle::create(unio::address_family::ipv4).value());
    co_await s.async_connect(acceptor.local_endpoint(), asio::use_awaitable);
    std::string got(5, ' ');
    co_await asio::async_read(s, asio::buffer(got), asio::use_awaitable);
    done = got == "hello";
  });
  context.run();
  EXPECT_TRUE(done);
}

TEST(asio_acceptor, gives_a_closed_stream_beside_an_error) {
  unio::asio_context context;
  unio::asio_acceptor acceptor(context, any_port);
  asio_error_code seen;
  acceptor.async_accept([&](asio_error_code ec, unio::asio_stream<unio::socket_handle> s) {
    seen = ec;
    EXPECT_FALSE(s.is_open());
  });
  context.poll();
  EXPECT_EQ(acceptor.cancel(), 1u);
  context.run();
  EXPECT_EQ(seen, asio::error::operation_aborted);
}

TEST(asio_acceptor, accepts_synchronously) {
  unio::asio_context context;
  unio::asio_acceptor acceptor(context, any_port);
  auto client = unio::socket_handle::connected_to(acceptor.local_endpoint()).value();
  auto s = acceptor.accept();
  EXPECT_TRUE(s.is_open());
  EXPECT_TRUE(acceptor.is_open());
  acceptor.close();
  EXPECT_FALSE(acceptor.is_open());
}

TEST(asio_acceptor, throws_where_it_cannot_listen) {
  unio::asio_context context;
  unio::asio_acceptor first(context, any_port);
  unio::listen_options options;
  options.wait_for_address = unio::deadline::zero();
  EXPECT_THROW(unio::asio_acceptor(context, first.local_endpoint(), options),
               unio::detail::asio_system_error);
}

TEST(asio_acceptor, refuses_a_connection_with_the_systems_error) {
  unio::asio_context context;
  unio::endpoint nobody;
  {
    unio::asio_acceptor gone(context, any_port);
    nobody = gone.local_endpoint();
  }
  unio::asio_stream s(context, unio::socket_handle::create(unio::address_family::ipv4).value());
  outcome o;
  s.async_connect(nobody, o.handler());
  context.run();
  EXPECT_EQ(o.ec, asio::error::connection_refused);
}

TEST(asio_datagram_socket, exchanges_datagrams) {
  unio::asio_context context;
  unio::asio_datagram_socket a(context, any_port), b(context, any_port);
  unio::endpoint from;
  std::array<char, 16> room;
  outcome sent, got;
  b.async_receive_from(asio::buffer(room), from, got.handler());
  a.async_send_to(asio::buffer("hello", 5), b.local_endpoint(), sent.handler());
  context.run();
  EXPECT_EQ(sent.bytes, 5u);
  EXPECT_EQ(got.bytes, 5u);
  EXPECT_EQ(from, a.local_endpoint());
}

TEST(asio_datagram_socket, gathers_and_scatters) {
  unio::asio_context context;
  unio::asio_datagram_socket a(context, any_port), b(context, any_port);
  std::array<char, 2> first;
  std::array<char, 16> second;
  outcome sent, got;
  std::array<asio::mutable_buffer, 2> const to{asio::buffer(first), asio::buffer(second)};
  std::array<asio::const_buffer, 2> const from{asio::buffer("abc", 3), asio::buffer("de", 2)};
  b.async_receive(to, got.handler());
  a.async_send_to(from, b.local_endpoint(), sent.handler());
  context.run();
  EXPECT_EQ(got.bytes, 5u);
  EXPECT_EQ(std::string(first.data(), 2) + std::string(second.data(), 3), "abcde");
}

TEST(asio_datagram_socket, receives_an_empty_datagram_without_an_error) {
  unio::asio_context context;
  unio::asio_datagram_socket a(context, any_port), b(context, any_port);
  std::array<char, 2> room;
  outcome sent, got;
  b.async_receive(asio::buffer(room), got.handler());
  a.async_send_to(asio::const_buffer(), b.local_endpoint(), sent.handler());
  context.run();
  EXPECT_TRUE(got.called && sent.called);
  EXPECT_FALSE(got.ec);
  EXPECT_EQ(got.bytes, 0u);
}

TEST(asio_datagram_socket, sends_to_the_peer_that_it_is_connected_to) {
  unio::asio_context context;
  unio::asio_datagram_socket b(context, any_port);
  unio::asio_datagram_socket a(context, unio::datagram_handle::connected_to(b.local_endpoint()).value());
  outcome sent;
  a.async_send(asio::buffer("x", 1), sent.handler());
  context.run();
  std::array<char, 4> room;
  unio::endpoint from;
  asio_error_code ec;
  EXPECT_EQ(b.receive_from(asio::buffer(room), from, ec), 1u);
  EXPECT_EQ(b.send_to(asio::buffer("yz", 2), from, ec), 2u);
  EXPECT_FALSE(ec);
}

TEST(asio_datagram_socket, aborts_what_is_pending_when_it_is_cancelled_or_closed) {
  unio::asio_context context;
  unio::asio_datagram_socket b(context, any_port);
  std::array<char, 4> room;
  outcome first, second;
  b.async_receive(asio::buffer(room), first.handler());
  EXPECT_EQ(b.cancel(), 1u);
  context.run();
  EXPECT_EQ(first.ec, asio::error::operation_aborted);
  b.async_receive(asio::buffer(room), second.handler());
  b.close();
  context.restart();
  context.run();
  EXPECT_EQ(second.ec, asio::error::operation_aborted);
}

TEST(asio_timer, waits) {
  unio::asio_context context;
  auto const begin = std::chrono::steady_clock::now();
  unio::asio_timer timer(context, 10ms);
  outcome o;
  timer.async_wait(o.handler());
  EXPECT_EQ(context.run(), 1u);
  EXPECT_FALSE(o.ec);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 10ms);
  EXPECT_GE(timer.expiry(), begin + 10ms);
}

TEST(asio_timer, that_has_expired_completes_at_once_and_not_inside_of_the_call) {
  unio::asio_context context;
  unio::asio_timer timer(context, std::chrono::steady_clock::now() - 1s);
  outcome o;
  timer.async_wait(o.handler());
  EXPECT_FALSE(o.called);
  context.run();
  EXPECT_FALSE(o.ec);
  timer.wait();
}

TEST(asio_timer, completes_in_the_order_of_the_moments) {
  unio::asio_context context;
  std::string order;
  std::vector<unio::asio_timer> timers;
  for (int const ms : {3, 1, 2}) {
    timers.emplace_back(context, std::chrono::milliseconds(ms));
    timers.back().async_wait([&order, ms](asio_error_code) { order += static_cast<char>('0' + ms); });
  }
  context.run();
  EXPECT_EQ(order, "123");
}

TEST(asio_timer, aborts_waits_that_are_cancelled_set_anew_or_destroyed) {
  unio::asio_context context;
  outcome cancelled, set, destroyed, first, second;
  {
    unio::asio_timer timer(context, 1h);
    timer.async_wait(cancelled.handler());
    EXPECT_EQ(timer.cancel(), 1u);
    context.run();
    context.restart();
    timer.async_wait(set.handler());
    EXPECT_EQ(timer.expires_after(1h), 1u);
    context.run();
    context.restart();
    timer.async_wait(first.handler());
    timer.async_wait(second.handler());
    EXPECT_EQ(timer.cancel_one(), 1u);
    context.poll();
    EXPECT_TRUE(first.called);
    EXPECT_FALSE(second.called);
    context.restart();
    timer.async_wait(destroyed.handler());
  }
  context.run();
  for (outcome const* o : {&cancelled, &set, &destroyed, &first, &second})
    EXPECT_EQ(o->ec, asio::error::operation_aborted);
}

TEST(asio_timer, cancels_and_counts_a_wait_once) {
  unio::asio_context context;
  unio::asio_timer timer(context, 1h);
  outcome first, second;
  timer.async_wait(first.handler());
  EXPECT_EQ(timer.cancel(), 1u);
  EXPECT_EQ(timer.cancel(), 0u);
  timer.async_wait(second.handler());
  EXPECT_EQ(timer.cancel_one(), 1u);
  EXPECT_EQ(timer.cancel_one(), 0u);
  EXPECT_EQ(timer.expires_after(1h), 0u);
  context.run();
  EXPECT_EQ(first.ec, asio::error::operation_aborted);
  EXPECT_EQ(second.ec, asio::error::operation_aborted);
}

TEST(asio_timer, is_cancelled_by_a_slot) {
  unio::asio_context context;
  unio::asio_timer timer(context, 1h);
  asio::cancellation_signal signal;
  outcome o;
  timer.async_wait(asio::bind_cancellation_slot(signal.slot(), o.handler()));
  asio::post(context, [&] { signal.emit(asio::cancellation_type::all); });
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
}

TEST(asio_timer, counts_no_wait_that_its_slot_cancelled) {
  unio::asio_context context;
  unio::asio_timer timer(context, 1h);
  asio::cancellation_signal signal;
  outcome first, second;
  timer.async_wait(asio::bind_cancellation_slot(signal.slot(), first.handler()));
  timer.async_wait(second.handler());
  context.poll();
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_EQ(timer.cancel_one(), 1u); // the other
  EXPECT_EQ(timer.cancel(), 0u);
  context.run();
  EXPECT_EQ(first.ec, asio::error::operation_aborted);
  EXPECT_EQ(second.ec, asio::error::operation_aborted);
}

TEST(asio_timer, may_be_moved_while_something_waits) {
  unio::asio_context context;
  unio::asio_timer timer(context, 5ms);
  outcome o;
  timer.async_wait(o.handler());
  unio::asio_timer moved = std::move(timer);
  context.run();
  EXPECT_TRUE(o.called);
  EXPECT_FALSE(o.ec);
}

} // namespace
