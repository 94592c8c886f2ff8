// Connections as networks make them: cases 46, 47, 48, 51.

#include "support/child.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"

#include <sched.h>

namespace {

using namespace test;

class kernel_socket : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_socket);

// Case 46: as little as possible goes out at once, and comes in by odd sizes.
void transfer_in_pieces(unio::io_multiplexer& m, bool with_own) {
  connection c = local_connection(with_own ? &m : nullptr);
  ASSERT_TRUE(c.socket.send_buffer(1).has_value()); // the kernel makes it its minimum
  std::string const sent = pattern(300'000);
  std::string received;
  std::thread peer([&] {
    for (std::size_t i = 0; received.size() < sent.size(); ++i) {
      if (!c.peer.wait()) break;
      received += c.peer.read_some(1 + i * 7 % 1300);
    }
  });
  std::size_t at = 0;
  int shorter = 0;
  while (at < sent.size()) {
    std::string_view const rest = std::string_view(sent).substr(at);
    // Gathered from three pieces, so that the cut is anywhere in them.
    std::size_t const third = rest.size() / 3;
    std::array<unio::const_buffer, 3> const pieces = {unio::const_buffer(rest.substr(0, third)),
                                                      unio::const_buffer(rest.substr(third, third)),
                                                      unio::const_buffer(rest.substr(2 * third))};
    bool const gathered = at % 2 == 0;
    auto const r = gathered ? c.socket.write(unio::const_buffers(pieces), 30s)
                            : c.socket.write(unio::const_buffer(rest), 30s);
    ASSERT_TRUE(r.has_value()) << r.error().message();
    ASSERT_EQ(r->bytes(), r.bytes_transferred());
    ASSERT_GE(r.bytes_transferred(), 1u);
    if (r.bytes_transferred() < rest.size()) ++shorter;
    at += r.bytes_transferred();
  }
  peer.join();
  EXPECT_TRUE(received == sent);
  EXPECT_GT(shorter, 0) << "the canary: nothing was cut short";
}

DRIVER_TEST(kernel_socket, loses_nothing_in_short_writes) {
  transfer_in_pieces(m, true);
  transfer_in_pieces(m, false);
}

DRIVER_TEST(kernel_socket, loses_nothing_in_short_reads) {
  connection c = local_connection(&m);
  std::string const sent = pattern(100'000);
  std::thread peer([&] {
    for (std::size_t at = 0, i = 0; at < sent.size(); ++i) {
      std::size_t const n = std::min(sent.size() - at, 1 + i * 13 % 997);
      c.peer.write(std::string_view(sent).substr(at, n));
      at += n;
    }
  });
  std::string received;
  std::array<char, 100> first{};
  std::array<char, 1> second{};
  std::array<char, 333> third{};
  while (received.size() < sent.size()) {
    std::array<unio::mutable_buffer, 3> const into = {
        unio::mutable_buffer(first), unio::mutable_buffer(second), unio::mutable_buffer(third)};
    auto const r = c.socket.read(unio::mutable_buffers(into), 30s);
    ASSERT_TRUE(r.has_value()) << r.error().message();
    for (unio::mutable_buffer const b : *r)
      received.append(reinterpret_cast<char const*>(b.data()), b.size());
  }
  peer.join();
  EXPECT_TRUE(received == sent);
}

// Case 47.
DRIVER_TEST(kernel_socket, reads_on_after_its_own_side_was_shut) {
  for_each_connection_of(&m, [&](connection& c) {
    std::array<char, 16> memory{};
    started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
    submit_all(m);
    ASSERT_TRUE(c.socket.shutdown(unio::socket_handle::side::send).has_value());
    EXPECT_TRUE(c.peer.sees_end());
    submit_all(m);
    EXPECT_FALSE(read.ended());
    c.peer.write("answer");
    ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
    EXPECT_EQ(std::string(memory.data(), read.bytes), "answer");
    EXPECT_EQ(c.socket.write(unio::const_buffer(std::string_view("x"))).error().value(), EPIPE);
  });
}

// Once the peer reads. `filled`: what was written before.
template <class Started>
void expect_to_write_on(unio::io_multiplexer& m, connection& c, Started& write, std::size_t filled) {
  std::string received;
  ASSERT_TRUE(drive(m, [&] {
    received += c.peer.read_some();
    return write.ended();
  }));
  ASSERT_FALSE(write.error);
  while (received.size() < filled + write.bytes && c.peer.wait()) received += c.peer.read_some();
  EXPECT_TRUE(received == pattern(filled + write.bytes));
}

DRIVER_TEST(kernel_socket, writes_on_after_the_peer_has_shut_its_side) {
  for_each_connection_of(&m, [&](connection& c) {
    c.peer.write("last words");
    ASSERT_EQ(::shutdown(c.peer.fd(), SHUT_WR), 0);
    std::array<char, 4> memory{};
    std::string all;
    for (;;) {
      auto const r = c.socket.read(unio::mutable_buffer(memory), 20s);
      ASSERT_TRUE(r.has_value());
      if (r.bytes_transferred() == 0) break;
      all.append(memory.data(), r.bytes_transferred());
    }
    EXPECT_EQ(all, "last words");
    EXPECT_EQ(c.socket.read(unio::mutable_buffer(memory), 20s).bytes_transferred(), 0u); // and stays so
    // The end of what is read comes while something is being written.
    std::size_t const filled = fill(c.socket);
    std::string const more = pattern(5000, filled);
    started write{unio::async_write(c.socket, unio::const_buffer(more))};
    submit_all(m);
    expect_to_write_on(m, c, write, filled);
  });
}

// A ring ends each poll of such a connection at once, whatever it was to wait for.
DRIVER_TEST(kernel_socket, waits_for_room_without_spinning_when_the_peer_has_shut_its_side) {
  connection c = local_connection(&m);
  ASSERT_EQ(::shutdown(c.peer.fd(), SHUT_WR), 0);
  std::size_t const filled = fill(c.socket);
  std::string const more = pattern(500, filled);
  unio::const_buffer const pieces[] = {std::string_view(more).substr(0, 200),
                                       std::string_view(more).substr(200)};
  started write{unio::async_write(c.socket, unio::const_buffers(pieces))};
  submit_all(m);
  std::uint64_t const turns = m.counters().turns;
  unio::timer_handle timer(100ms, &m);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_LT(m.counters().turns - turns, 150u);
  EXPECT_FALSE(write.ended());
  expect_to_write_on(m, c, write, filled);
}

DRIVER_TEST(kernel_socket, is_not_ready_for_what_it_is_not_because_the_peer_has_shut_its_side) {
  connection c = local_connection(&m);
  ASSERT_EQ(::shutdown(c.peer.fd(), SHUT_WR), 0);
  (void)fill(c.socket);
  for (unio::readiness const what : {unio::readiness::writable, unio::readiness::exceptional})
    EXPECT_EQ(c.socket.poll(what, 20ms).error(), unio::condition::timed_out);
  unio::poll_entry each[] = {{c.socket, unio::readiness_set::writable | unio::readiness_set::exceptional}};
  EXPECT_EQ(unio::poll_any(each, 20ms).error(), unio::condition::timed_out);
  started poll{unio::async_poll(c.socket, unio::readiness::writable)};
  submit_all(m);
  ASSERT_TRUE(drive(m, [&] {
    (void)c.peer.read_some();
    return poll.ended();
  }));
  EXPECT_FALSE(poll.error);
}

// Nothing is announced of it: a ring refuses to wait for that, as epoll does.
DRIVER_TEST(kernel_socket, is_not_all_that_is_waited_for_without_spinning) {
  auto file = unio::file_handle::file({}, "/dev/null").value();
  file.set_multiplexer(&m);
  (void)file.barrier(); // with the first operation on a file a ring prepares itself for more
  unio::counters const before = m.counters();
  EXPECT_EQ(file.poll(unio::readiness::exceptional, 50ms).error(), unio::condition::timed_out);
  EXPECT_EQ(m.counters().worker_jobs, before.worker_jobs);
  EXPECT_LT(m.counters().turns - before.turns, 150u);
}

DRIVER_TEST(kernel_socket, reads_the_end_when_its_own_receiving_side_is_shut) {
  pending_read read(m);
  submit_all(m);
  ASSERT_TRUE(read.socket.shutdown(unio::socket_handle::side::receive).has_value());
  ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
  EXPECT_FALSE(read.error);
  EXPECT_EQ(read.bytes, 0u);
}

// Case 48; libuv's tcp_rst and tcp_close_reset_*.
DRIVER_TEST(kernel_socket, reports_a_reset_once) {
  for (bool const with_own : {true, false}) {
    { // while it reads
      connection c = tcp_connection(with_own ? &m : nullptr);
      std::array<char, 4> memory{};
      std::thread peer([&] {
        std::this_thread::sleep_for(2ms);
        c.peer.reset_connection();
      });
      auto const r = c.socket.read(unio::mutable_buffer(memory), 20s);
      peer.join();
      EXPECT_EQ(r.error().value(), ECONNRESET);
      auto const again = c.socket.read(unio::mutable_buffer(memory), 20s);
      EXPECT_TRUE(again.has_value() && again.bytes_transferred() == 0) << again.error().message();
    }
    { // while it writes
      connection c = tcp_connection(with_own ? &m : nullptr);
      std::string const bytes = pattern(1 << 20);
      while (c.socket.try_write(unio::const_buffer(bytes)).has_value()) continue;
      std::thread peer([&] {
        std::this_thread::sleep_for(2ms);
        c.peer.reset_connection();
      });
      auto const r = c.socket.write(unio::const_buffer(bytes), 20s);
      peer.join();
      EXPECT_TRUE(r.error().value() == ECONNRESET || r.error().value() == EPIPE) << r.error().message();
      EXPECT_EQ(c.socket.write(unio::const_buffer(bytes), 20s).error().value(), EPIPE);
    }
  }
  { // both directions at once
    connection c = tcp_connection(&m);
    std::size_t const filled = fill(c.socket);
    EXPECT_GT(filled, 0u);
    std::array<char, 4> memory{};
    std::string const more = pattern(1000);
    started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
    started write{unio::async_write(c.socket, unio::const_buffer(more))};
    submit_all(m);
    c.peer.reset_connection();
    ASSERT_TRUE(drive(m, [&] { return read.ended() && write.ended(); }));
    EXPECT_TRUE(read.ended_once() && write.ended_once());
    int const resets = (read.error.value() == ECONNRESET) + (write.error.value() == ECONNRESET);
    EXPECT_EQ(resets, 1) << read.error.message() << ", " << write.error.message();
  }
}

// Case 51.
DRIVER_TEST(kernel_socket, is_told_that_nobody_listens) {
  std::uint16_t unused = 0;
  {
    auto const [listening, port] = raw_listener();
    unused = port;
  }
  for (bool const with_own : {true, false}) {
    auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
    if (with_own) s.set_multiplexer(&m);
    EXPECT_EQ(s.connect(unio::endpoint::ipv4_loopback(unused), 20s).error().value(), ECONNREFUSED);
    EXPECT_EQ(unio::socket_handle::connected_to(unio::endpoint::unix_path("/nonexistent/socket").value())
                  .error()
                  .value(),
              ENOENT);
  }
}

DRIVER_TEST(kernel_socket, stops_connecting_at_its_deadline) {
  auto const [full, port] = raw_listener(0);
  std::vector<raw> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(raw_connection(port, SOCK_NONBLOCK));
  for (bool const with_own : {true, false}) {
    auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
    if (with_own) s.set_multiplexer(&m);
    EXPECT_EQ(s.connect(unio::endpoint::ipv4_loopback(port), 30ms).error(), unio::condition::timed_out);
  }
}

// A Unix socket whose peer's backlog is full gets no event when there is room again.
DRIVER_TEST(kernel_socket, connects_to_a_unix_socket_once_there_is_room) {
  auto const name = unio::endpoint::unix_path("@unio-test-" + std::to_string(::getpid())).value();
  auto accepting = unio::listening_socket_handle::listen(name, {.backlog = 0}).value();
  auto const first = unio::socket_handle::connected_to(name).value();
  auto s = unio::socket_handle::create(unio::address_family::unix_path).value();
  s.set_multiplexer(&m);
  started connect{unio::async_connect(s, name)};
  for (int i = 0; i < 3; ++i) (void)m.try_run_for(5ms);
  EXPECT_FALSE(connect.ended());
  auto const accepted = accepting.accept().value();
  ASSERT_TRUE(drive(m, [&] { return connect.ended(); }));
  EXPECT_FALSE(connect.error) << connect.error.message();
}

// Runs in a network of its own; returns -2 where that is not permitted.
template <class F> int in_own_network(F f) {
  return in_child([&] {
    if (::unshare(CLONE_NEWNET) != 0) return 200;
    if (std::system("ip link set lo up && ip route add unreachable 192.0.2.0/24 && ip route add prohibit "
                    "198.51.100.0/24") != 0)
      return 201;
    return f();
  });
}

ISOLATED_TEST(kernel_socket, is_told_that_there_is_no_way) {
  int const failed = in_own_network([] {
    auto const m = made_multiplexer();
    for (bool const with_own : {true, false}) {
      auto error_of = [&](std::uint8_t const(&address)[4]) {
        auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
        if (with_own) s.set_multiplexer(m.get());
        return s.connect(unio::endpoint::ipv4(address, 9), 20s).error().value();
      };
      CHILD_EXPECTS(error_of({192, 0, 2, 1}) == EHOSTUNREACH);
      CHILD_EXPECTS(error_of({198, 51, 100, 1}) == EACCES);
      CHILD_EXPECTS(error_of({203, 0, 113, 1}) == ENETUNREACH);
      auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
      CHILD_EXPECTS(s.bind(unio::endpoint::ipv4({203, 0, 113, 1}, 0)).error().value() == EADDRNOTAVAIL);
    }
    return 0;
  });
  if (failed >= 200) GTEST_SKIP() << "no network of its own, or no ip(8)";
  EXPECT_EQ(failed, 0);
}

// All ports of an address in use: two ports, three connections.
ISOLATED_TEST(kernel_socket, is_told_that_there_is_no_port_left) {
  int const failed = in_own_network([] {
    if (std::system("echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range") != 0) return 202;
    auto const m = made_multiplexer();
    auto accepting =
        unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(30000), {.backlog = 16}).value();
    auto const first = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(30000));
    auto const second = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(30000));
    CHILD_EXPECTS(first.has_value() && second.has_value());
    for (bool const with_own : {true, false}) {
      auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
      if (with_own) s.set_multiplexer(m.get());
      CHILD_EXPECTS(s.connect(unio::endpoint::ipv4_loopback(30000), 20s).error().value() == EADDRNOTAVAIL);
    }
    return 0;
  });
  if (failed >= 200) GTEST_SKIP() << "no network of its own, or its range of ports cannot be set";
  EXPECT_EQ(failed, 0);
}

// ---- without copying -------------------------------------------------------------------------------------

// Case 36. Each time the memory is overwritten as soon as it is ours again: after set_done, or after the
// destructor of an operation whose value was known.
DRIVER_TEST(kernel_socket, sends_several_buffers_without_copying_and_has_them_until_the_end) {
  for_each_connection_of(&m, [&](connection& c) {
    std::string const sent = pattern(600'000);
    std::string received;
    std::thread peer([&] {
      for (std::size_t i = 0; received.size() < sent.size() && c.peer.wait(); ++i)
        received += c.peer.read_some(1 + i * 7001 % 50'000);
    });
    std::size_t at = 0;
    for (int round = 0; at < sent.size(); ++round) {
      std::array<std::string, 3> memory;
      std::size_t total = 0;
      for (std::size_t i = 0; i < memory.size(); ++i) {
        memory[i] = sent.substr(std::min(at + total, sent.size()), (i + 1) * 17'001);
        total += memory[i].size();
      }
      std::array<unio::const_buffer, 4> const parts = {unio::const_buffer(memory[0]), unio::const_buffer(),
                                                       unio::const_buffer(memory[1]),
                                                       unio::const_buffer(memory[2])};
      {
        started send{unio::async_send_zero_copy(c.socket, unio::const_buffers(parts))};
        ASSERT_TRUE(drive(m, [&] { return round % 2 == 0 ? send.ended() : send.values == 1; }));
        ASSERT_FALSE(send.error) << send.error.message();
        ASSERT_GE(send.bytes, 1u);
        ASSERT_LE(send.bytes, total);
        EXPECT_EQ(send.values, 1);
        at += send.bytes;
      }
      for (std::string& s : memory) s.assign(s.size(), '#');
    }
    peer.join();
    EXPECT_TRUE(received == sent);
  });
}

// Room for nothing: the operation waits for it, and a cancel there leaves the stream whole.
DRIVER_TEST(kernel_socket, sends_several_buffers_without_copying_once_there_is_room) {
  for_each_connection_of(&m, [&](connection& c) {
    std::size_t const filled = fill(c.socket);
    std::string const more = pattern(3000, filled);
    std::array<unio::const_buffer, 2> const parts = {unio::const_buffer(more.data(), 1000),
                                                     unio::const_buffer(more.data() + 1000, 2000)};
    std::string received;
    std::size_t sent = 0;
    {
      started canceled{unio::async_send_zero_copy(c.socket, unio::const_buffers(parts))};
      submit_all(m);
      canceled.cancel();
      ASSERT_TRUE(drive(m, [&] { return canceled.ended(); }));
      sent = canceled.bytes; // TCP may have found a little room
    }
    if (sent == 0) {
      started send{unio::async_send_zero_copy(c.socket, unio::const_buffers(parts))};
      ASSERT_TRUE(drive(m, [&] {
        received += c.peer.read_some();
        return send.ended();
      }));
      ASSERT_FALSE(send.error) << send.error.message();
      sent = send.bytes;
    }
    while (received.size() < filled + sent && c.peer.wait()) received += c.peer.read_some();
    EXPECT_TRUE(received == pattern(filled + sent));
  });
}

// Case 55. What the peer does not read stays with the caller: unio queues nothing of it.
DRIVER_TEST(kernel_socket, gives_the_kernel_no_more_than_it_takes_when_the_peer_never_reads) {
  for_each_connection_of(&m, [&](connection& c) {
    std::string const block = pattern(65'536);
    std::size_t taken = 0;
    unio::io_result<unio::const_buffers> r;
    while ((r = c.socket.write(unio::const_buffer(block), 30ms)).has_value()) {
      taken += r.bytes_transferred();
      ASSERT_LT(taken, std::size_t{256} << 20) << "it takes everything";
    }
    EXPECT_EQ(r.error(), unio::condition::timed_out);
    EXPECT_GT(taken, 0u);
    std::string received;
    while (received.size() < taken && c.peer.wait()) received += c.peer.read_some();
    EXPECT_EQ(received.size(), taken);
  });
}

// ---- in a network of its own -----------------------------------------------------------------------------

ISOLATED_TEST(kernel_socket, takes_the_first_write_along_with_the_handshake) {
  int const failed = in_own_network([] {
    if (std::system("echo 3 > /proc/sys/net/ipv4/tcp_fastopen") != 0) return 202;
    auto const m = made_multiplexer();
    for (bool const over_ipv6 : {false, true}) {
      unio::endpoint const any =
          over_ipv6 ? unio::endpoint::ipv6_loopback(0) : unio::endpoint::ipv4_loopback(0);
      auto accepting = unio::listening_socket_handle::listen(any, {.fast_open = 16}).value();
      unio::endpoint const at = accepting.local_endpoint().value();
      bool with_data = false;
      for (int i = 0; i < 4; ++i) { // the first brings the cookie home
        unio::connect_options options{.fast_open = true};
        if (i % 2 == 0) options.multiplexer = m.get();
        auto client = unio::socket_handle::connected_to(at, options, 20s);
        CHILD_EXPECTS(client);
        CHILD_EXPECTS(client->write(std::string_view("hello"), 20s).bytes_transferred() == 5);
        auto server = accepting.accept(20s).value();
        std::array<char, 8> memory{};
        CHILD_EXPECTS(server.read(memory, 20s).bytes_transferred() == 5);
        CHILD_EXPECTS(server.write(std::string_view("back"), 20s).bytes_transferred() == 4);
        CHILD_EXPECTS(client->read(memory, 20s).bytes_transferred() == 4);
        with_data = with_data || client->information().value().fast_open;
      }
      CHILD_EXPECTS(with_data);
    }
    return 0;
  });
  if (failed >= 200) GTEST_SKIP() << "no network of its own";
  EXPECT_EQ(failed, 0);
}

// fe80::1 is an address only together with the interface that it is on.
ISOLATED_TEST(kernel_socket, connects_to_an_address_with_a_scope) {
  int const failed = in_own_network([] {
    if (std::system("ip -6 address add fe80::1/64 dev lo nodad") != 0) return 202;
    auto const m = made_multiplexer();
    auto accepting =
        unio::listening_socket_handle::listen(unio::parse_endpoint("[fe80::1%lo]:0").value()).value();
    unio::endpoint const at = accepting.local_endpoint().value();
    CHILD_EXPECTS(to_string(at).starts_with("[fe80::1%1]:"));
    unio::connect_options const options{.from = unio::parse_endpoint("[fe80::1%lo]:0").value(),
                                        .multiplexer = m.get()};
    auto client = unio::socket_handle::connected_to(at, options, 20s);
    // The kernel's own work on a new address may end an early connection, without unio too.
    for (int i = 0; client.error() == std::errc::network_unreachable && i < 10; ++i)
      client = unio::socket_handle::connected_to(at, options, 20s);
    CHILD_EXPECTS(client);
    auto const server = accepting.accept(20s).value();
    CHILD_EXPECTS(server.remote_endpoint().value() == client->local_endpoint().value());
    auto datagrams = unio::datagram_handle::bind(unio::parse_endpoint("[fe80::1%lo]:0").value()).value();
    datagrams.set_multiplexer(m.get());
    unio::endpoint const to = datagrams.local_endpoint().value();
    CHILD_EXPECTS(datagrams.send_to({.to = to}, unio::const_buffer("x", 1), 20s));
    std::array<char, 8> memory{};
    unio::datagram_info info;
    CHILD_EXPECTS(datagrams.receive_from(unio::mutable_buffer(memory), info, 20s));
    return CHILD_MEETS(info.from == to);
  });
  if (failed >= 200) GTEST_SKIP() << "no network of its own, or no ip(8)";
  EXPECT_EQ(failed, 0);
}

} // namespace
