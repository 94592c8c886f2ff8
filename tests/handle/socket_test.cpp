// socket_handle.hpp: sockets, their names and options.

#include "support/descriptors.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <netinet/tcp.h>
#include <sys/eventfd.h>

namespace {

using namespace test;

TEST(socket, is_made_for_each_family) {
  for (address_family const f : {address_family::ipv4, address_family::ipv6, address_family::unix_path}) {
    unio::result<socket_handle> const s = socket_handle::create(f);
    if (!s && s.error() == std::errc::address_family_not_supported) continue; // IPv6 may be switched off
    ASSERT_TRUE(s);
    EXPECT_EQ(s->kind(), unio::handle_kind::stream_socket);
    EXPECT_EQ(in_kernel(*s, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  }
  EXPECT_EQ(socket_handle::create(address_family::unspecified).error().value(), EAFNOSUPPORT);
}

unio::task<unio::result<socket_handle>> connect_awaited(endpoint to, unio::deadline d) {
  co_return co_await socket_handle::co_connected_to(to, d);
}

TEST(connected_to, awaited_makes_the_socket_and_connects_it_within_a_deadline) {
  for (endpoint const& at : {endpoint::ipv4_loopback(0), endpoint::unix_unnamed()}) {
    auto listener = listening_socket_handle::listen(at).value();
    endpoint const to = listener.local_endpoint().value();
    auto client = unio::run(connect_awaited(to, 20s));
    ASSERT_TRUE(client) << client.error().message();
    client->write("hi").value();
    std::array<char, 8> room{};
    EXPECT_EQ(listener.accept(20s).value().read(room, 20s).value().bytes(), 2U);
    ASSERT_TRUE(listener.close());
    EXPECT_EQ(unio::run(connect_awaited(to, 20s)).error(), std::errc::connection_refused);
  }
  EXPECT_EQ(unio::run(connect_awaited(endpoint(), 20s)).error().value(), EAFNOSUPPORT);

  // A full queue: TCP does not answer, and tries again after a second.
  auto full = listening_socket_handle::listen(endpoint::ipv4_loopback(0), {.backlog = 0}).value();
  endpoint const to = full.local_endpoint().value();
  std::array<socket_handle, 2> queued;
  for (socket_handle& q : queued) {
    q = socket_handle::create(unio::address_family::ipv4).value();
    (void)q.connect(to, 5ms);
  }
  EXPECT_EQ(unio::run(connect_awaited(to, 5ms)).error(), unio::condition::timed_out);
}

TEST(socket, made_by_an_operation_is_closed_with_it_unless_it_was_taken) {
  std::ptrdiff_t const before = count_descriptors();
  {
    unio::async_socket first(unio::address_family::ipv4);
    first.run_blocking();
    unio::async_socket op = std::move(first);
    EXPECT_EQ(count_descriptors(), before + 1);
    op.reset();
    EXPECT_EQ(count_descriptors(), before);
    op.run_blocking();
    op = unio::async_socket(unio::address_family::ipv4);
    EXPECT_EQ(count_descriptors(), before);
    op.run_blocking();
    unio::socket_handle const taken = op.result().value();
    op.reset();
    EXPECT_TRUE(is_open(taken.native_handle()));
    op.run_blocking();
    EXPECT_EQ(count_descriptors(), before + 2);
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST(socket_pair, is_connected_to_itself) {
  unio::socket_pair const pair = socket_handle::pair().value();
  EXPECT_EQ(::write(pair.first.native_handle(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(pair.second.native_handle(), &c, 1), 1);
  EXPECT_EQ(to_string(pair.first.local_endpoint().value()), "unix:");
}

TEST(socket, has_short_forms_of_frequent_options) {
  socket_handle s = socket_handle::create(address_family::ipv4).value();
  ASSERT_TRUE(s.no_delay(true));
  EXPECT_NE(in_kernel(s, IPPROTO_TCP, TCP_NODELAY), 0);
  ASSERT_TRUE(s.keep_alive(true));
  EXPECT_NE(in_kernel(s, SOL_SOCKET, SO_KEEPALIVE), 0);
  ASSERT_TRUE(s.linger(3));
  EXPECT_EQ(s.get(unio::option::linger).value(), 3s);
  ASSERT_TRUE(s.linger(-1));
  EXPECT_LT(s.get(unio::option::linger).value(), 0s);
  ASSERT_TRUE(s.send_buffer(20'000));
  EXPECT_GE(s.send_buffer().value(), 20'000);
  ASSERT_TRUE(s.receive_buffer(30'000));
  EXPECT_GE(s.receive_buffer().value(), 30'000);
}

TEST(socket, reports_that_an_option_is_not_for_it) {
  socket_handle unix_socket = socket_handle::create(address_family::unix_path).value();
  EXPECT_FALSE(unix_socket.no_delay(true));
  socket_handle closed;
  EXPECT_EQ(closed.keep_alive(true).error().value(), EBADF);
  EXPECT_EQ(closed.send_buffer().error().value(), EBADF);
  EXPECT_EQ(closed.local_endpoint().error().value(), EBADF);
}

TEST(socket, that_is_not_connected_has_no_remote_endpoint) {
  socket_handle s = socket_handle::create(address_family::ipv4).value();
  EXPECT_EQ(s.remote_endpoint().error().value(), ENOTCONN);
  EXPECT_EQ(s.shutdown(socket_handle::side::both).error().value(), ENOTCONN);
}

TEST(socket, binds_before_it_connects) {
  socket_handle s = socket_handle::create(address_family::ipv4).value();
  ASSERT_TRUE(s.bind(endpoint::ipv4({127, 0, 0, 2}, 0)));
  EXPECT_TRUE(to_string(s.local_endpoint().value()).starts_with("127.0.0.2:"));
}

TEST(socket, shuts_one_direction_down) {
  unio::socket_pair pair = socket_handle::pair().value();
  ASSERT_TRUE(pair.first.shutdown(socket_handle::side::send));
  char c = 0;
  EXPECT_EQ(::read(pair.second.native_handle(), &c, 1), 0);
  EXPECT_EQ(::write(pair.second.native_handle(), "x", 1), 1);
  EXPECT_EQ(::read(pair.first.native_handle(), &c, 1), 1);
}

TEST(socket, shuts_down_in_every_style) {
  using side = socket_handle::side;
  unio::socket_pair pair = socket_handle::pair().value();
  char c = 0;
  EXPECT_EQ(pair.first.try_read(unio::mutable_buffer(&c, 1)).error(), unio::condition::would_block);
  ASSERT_TRUE(pair.first.try_shutdown(side::receive)); // nothing is sent to the peer, but it cannot write
  EXPECT_EQ(pair.first.read(unio::mutable_buffer(&c, 1), 10s).value().bytes(), 0U);
  EXPECT_EQ(pair.second.write(unio::const_buffer("x", 1)).error().value(), EPIPE);
  ASSERT_TRUE(pair.first.try_shutdown_for(side::send, 10s));
  EXPECT_EQ(pair.second.read(unio::mutable_buffer(&c, 1), 10s).value().bytes(), 0U);
  ASSERT_TRUE(unio::sync_wait([](socket_handle& s) -> unio::task<unio::io_result<void>> {
    co_return co_await s.co_shutdown(side::both);
  }(pair.second)));
  EXPECT_EQ(socket_handle().shutdown(side::both).error().value(), EBADF);
}

// Case 57.
TEST(socket, of_sequenced_packets_shuts_one_direction_down) {
  auto pair = unio::datagram_handle::pair({.sequenced = true}).value();
  ASSERT_TRUE(pair.first.shutdown(unio::datagram_handle::side::send));
  char memory[4];
  unio::datagram_info info;
  EXPECT_EQ(pair.second.receive_from(unio::mutable_buffer(memory), info, 10s).value().bytes(), 0U);
  ASSERT_TRUE(pair.second.send_to({}, unio::const_buffer("x", 1)));
  EXPECT_EQ(pair.first.receive_from(unio::mutable_buffer(memory), info, 10s).value().bytes(), 1U);
}

TEST(listen, tells_the_port_that_was_chosen) {
  listening_socket_handle const l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = l.local_endpoint().value();
  EXPECT_EQ(at.family(), address_family::ipv4);
  EXPECT_NE(at.port(), 0);
  EXPECT_NE(in_kernel(l, SOL_SOCKET, SO_ACCEPTCONN), 0);
  EXPECT_NE(in_kernel(l, SOL_SOCKET, SO_REUSEADDR), 0);
  EXPECT_EQ(in_kernel(l, SOL_SOCKET, SO_REUSEPORT), 0);
  EXPECT_EQ(listening_socket_handle::listen(at).error().value(), EADDRINUSE);
}

TEST(listen, waits_for_an_address_that_is_free_soon) {
  listening_socket_handle first = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = first.local_endpoint().value();
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(first.close().has_value());
  });
  EXPECT_TRUE(listening_socket_handle::listen(at, {.wait_for_address = 60s}));
  other.join();
}

TEST(listen, waits_for_no_address_if_it_may_not_and_for_no_path) {
  test::failing_calls calls; // which counts
  listening_socket_handle const l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  int const before = calls.count<&unio::sys::table::bind>();
  auto const refused = listening_socket_handle::listen(l.local_endpoint().value(),
                                                       {.wait_for_address = unio::deadline::zero()});
  EXPECT_EQ(refused.error().value(), EADDRINUSE);
  EXPECT_EQ(calls.count<&unio::sys::table::bind>() - before, 1);

  test::temporary_directory const directory;
  endpoint const path = endpoint::unix_path(directory / "socket").value();
  listening_socket_handle const there = listening_socket_handle::listen(path).value();
  int const before_path = calls.count<&unio::sys::table::bind>();
  EXPECT_EQ(listening_socket_handle::listen(path, {.wait_for_address = 60s}).error().value(), EADDRINUSE);
  EXPECT_EQ(calls.count<&unio::sys::table::bind>() - before_path, 1);
}

// The kernel takes a ring apart after its process has ended, and with it what the ring's operations use.
TEST(listen, has_an_address_again_when_its_server_was_killed) {
  endpoint const at =
      listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value().local_endpoint().value();
  for (int i = 0; i < 20; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    pid_t const server = ::fork();
    ASSERT_GE(server, 0);
    if (server == 0) {
      ::alarm(60);
      auto l = listening_socket_handle::listen(at, {.wait_for_address = 30s});
      if (!l) ::_exit(1);
      test::started accept{unio::async_accept(*l)};
      (void)unio::this_thread::multiplexer().try_run();
      if (::write(ready[1], "x", 1) != 1) ::_exit(2);
      for (;;) (void)unio::this_thread::multiplexer().run();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the server did not begin";
    ::close(ready[0]);
    ::kill(server, SIGKILL);
    ASSERT_EQ(::waitpid(server, nullptr, 0), server);
    // The default is 100 ms: a machine with other work may need more than the 33 of an idle one.
    EXPECT_TRUE(listening_socket_handle::listen(at, {.wait_for_address = 30s})) << "restart " << i;
  }
}

TEST(listen, shares_a_port_if_both_want_to) {
  unio::listen_options const shared{.reuse_port = true};
  listening_socket_handle const l =
      listening_socket_handle::listen(endpoint::ipv4_loopback(0), shared).value();
  EXPECT_TRUE(listening_socket_handle::listen(l.local_endpoint().value(), shared));
}

// Each connection goes to one of the group, by its addresses and ports; both get some of many.
TEST(listen, in_a_group_shares_the_connections_to_one_address) {
  for (endpoint const& any : {endpoint::ipv4_loopback(0), endpoint::ipv6_loopback(0)}) {
    auto made = listening_socket_handle::listen(any, {.reuse_port = true});
    if (!made) continue; // no IPv6
    listening_socket_handle members[2] = {std::move(*made), {}};
    endpoint const at = members[0].local_endpoint().value();
    members[1] = listening_socket_handle::listen(at, {.reuse_port = true}).value();
    EXPECT_EQ(listening_socket_handle::listen(at).error().value(), EADDRINUSE); // not of the group
    constexpr int many = 100;
    std::vector<socket_handle> clients;
    for (int i = 0; i < many; ++i) clients.push_back(socket_handle::connected_to(at, 10s).value());
    int got[2] = {0, 0};
    for (int i = 0; i < 2; ++i)
      while (members[i].try_accept()) ++got[i];
    EXPECT_EQ(got[0] + got[1], many);
    EXPECT_GT(got[0], 0);
    EXPECT_GT(got[1], 0);
  }
}

TEST(listen, on_ipv6_takes_no_ipv4_unless_told_to) {
  unio::result<listening_socket_handle> const l = listening_socket_handle::listen(endpoint::ipv6_loopback(0));
  if (!l) GTEST_SKIP() << "no IPv6 here: " << l.error().message();
  EXPECT_NE(in_kernel(*l, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  listening_socket_handle const both =
      listening_socket_handle::listen(endpoint::ipv6_any(0), {.ipv6_only = false}).value();
  EXPECT_EQ(in_kernel(both, IPPROTO_IPV6, IPV6_V6ONLY), 0);
}

TEST(listen, on_a_unix_path_needs_one_that_does_not_exist) {
  test::temporary_directory const directory;
  endpoint const at = endpoint::unix_path(directory / "socket").value();
  {
    listening_socket_handle const l = listening_socket_handle::listen(at).value();
    EXPECT_EQ(l.local_endpoint().value(), at);
    EXPECT_EQ(listening_socket_handle::listen(at).error().value(), EADDRINUSE);
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "socket"));
  EXPECT_EQ(listening_socket_handle::listen(at).error().value(), EADDRINUSE);
}

TEST(listen, on_an_abstract_name_tells_it_back) {
  endpoint const at = endpoint::unix_path("@unio-test-" + std::to_string(::getpid())).value();
  listening_socket_handle const l = listening_socket_handle::listen(at).value();
  EXPECT_EQ(l.local_endpoint().value(), at);
}

TEST(listen, on_an_abstract_name_of_any_bytes_is_found_by_just_that) {
  std::string const name = "unio\0test" + std::string(1, '\0') + std::to_string(::getpid());
  endpoint const at = endpoint::unix_abstract(name).value();
  listening_socket_handle l = listening_socket_handle::listen(at).value();
  EXPECT_EQ(l.local_endpoint().value(), at);
  EXPECT_EQ(
      socket_handle::connected_to(endpoint::unix_abstract(name.substr(0, name.size() - 1)).value()).error(),
      std::errc::connection_refused);
  socket_handle const client = socket_handle::connected_to(at, 10s).value();
  EXPECT_EQ(client.remote_endpoint().value().path(), name);
  EXPECT_TRUE(l.accept(10s));
}

TEST(listen, on_no_name_gets_an_abstract_one_from_the_kernel) {
  listening_socket_handle l = listening_socket_handle::listen(endpoint::unix_unnamed()).value();
  endpoint const at = l.local_endpoint().value();
  EXPECT_TRUE(at.is_abstract());
  EXPECT_EQ(at.path().size(), 5U); // unix(7), autobind
  EXPECT_TRUE(socket_handle::connected_to(at, 10s));
}

TEST(listen, on_the_longest_unix_path_tells_it_back) {
  test::temporary_directory const directory;
  std::string path = directory / "";
  path.resize(endpoint::max_unix_path, 's');
  endpoint const at = endpoint::unix_path(path).value();
  listening_socket_handle const l = listening_socket_handle::listen(at).value();
  EXPECT_EQ(l.local_endpoint().value().path(), path);
}

TEST(listen, without_an_address_is_an_error) {
  EXPECT_EQ(listening_socket_handle::listen(endpoint()).error().value(), EAFNOSUPPORT);
}

TEST(socket, connects_to_one_that_listens) {
  listening_socket_handle l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  socket_handle client = socket_handle::connected_to(l.local_endpoint().value(), 5s).value();
  socket_handle server = l.accept(5s).value();
  EXPECT_GT(server.native_handle(), 2);
  EXPECT_EQ(client.remote_endpoint().value(), l.local_endpoint().value());
  EXPECT_EQ(server.remote_endpoint().value(), client.local_endpoint().value());
  char memory[4];
  ASSERT_TRUE(client.write(unio::const_buffer("x", 1)));
  EXPECT_EQ(server.read(memory, 5s).value().bytes(), 1U);
}

TEST(socket, reports_that_nobody_listens) {
  listening_socket_handle l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = l.local_endpoint().value();
  ASSERT_TRUE(l.close());
  EXPECT_EQ(socket_handle::connected_to(at, 5s).error(), std::errc::connection_refused);
}

// ---- bound and connected in one --------------------------------------------------------------------------

TEST(socket, connects_from_the_address_that_it_is_given) {
  listening_socket_handle l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = l.local_endpoint().value();
  endpoint const from = endpoint::ipv4({127, 0, 0, 9}, 0);
  socket_handle const client = socket_handle::connected_to(at, {.from = from}, 10s).value();
  EXPECT_TRUE(to_string(client.local_endpoint().value()).starts_with("127.0.0.9:"));
  EXPECT_EQ(l.accept(10s)->remote_endpoint().value(), client.local_endpoint().value());
  EXPECT_TRUE(client.get(unio::option::bind_without_port).value());

  // From an address with a port, the whole of it.
  endpoint const taken = client.local_endpoint().value();
  EXPECT_EQ(socket_handle::connected_to(at, {.from = taken}, 10s).error().value(), EADDRINUSE);
  EXPECT_EQ(socket_handle::connected_to(at, {.from = endpoint::ipv4({192, 0, 2, 1}, 0)}, 10s).error().value(),
            EADDRNOTAVAIL);
  EXPECT_FALSE(socket_handle::connected_to(at, {.from = endpoint::ipv6_loopback(0)}, 10s));
  EXPECT_EQ(socket_handle::connected_to(endpoint()).error().value(), EAFNOSUPPORT);
}

TEST(socket, names_the_address_that_is_to_blame_where_it_connects_from_one) {
  listening_socket_handle l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = l.local_endpoint().value();
  endpoint const elsewhere = endpoint::ipv4({192, 0, 2, 1}, 7);
  unio::failure const ours = socket_handle::connected_to(at, {.from = elsewhere}, 10s).error();
  EXPECT_EQ(ours.object(), "192.0.2.1:7") << ours.message();
  auto const awaited = unio::run([](endpoint to, endpoint from) -> unio::task<unio::failure> {
    auto const s = co_await socket_handle::co_connected_to(to, {.from = from}, 10s);
    co_return s.error();
  }(at, elsewhere));
  EXPECT_EQ(awaited.message(), ours.message());
  ASSERT_TRUE(l.close());
  unio::failure const theirs =
      socket_handle::connected_to(at, {.from = endpoint::ipv4_loopback(0)}, 10s).error();
  EXPECT_EQ(theirs.message(), "connect " + to_string(at) + ": Connection refused");
  EXPECT_EQ(socket_handle::connected_to(at, {.device = "no such device"}, 10s).error().object(),
            to_string(at));
}

// A port that was chosen at bind is this socket's alone; one that is chosen at connect serves for each peer.
TEST(socket, shares_a_port_among_connections_to_different_peers) {
  listening_socket_handle first = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  listening_socket_handle second = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint from = endpoint::ipv4({127, 0, 0, 9}, 0);
  socket_handle const one =
      socket_handle::connected_to(first.local_endpoint().value(), {.from = from, .reuse_address = true}, 10s)
          .value();
  from = one.local_endpoint().value();
  auto const other = socket_handle::connected_to(second.local_endpoint().value(),
                                                 {.from = from, .reuse_address = true}, 10s);
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(other->local_endpoint().value(), from);
}

TEST(socket, connects_from_a_unix_name) {
  std::string const name = "@unio-from-" + std::to_string(::getpid());
  listening_socket_handle l = listening_socket_handle::listen(endpoint::unix_unnamed()).value();
  endpoint const from = endpoint::unix_path(name).value();
  socket_handle const client =
      socket_handle::connected_to(l.local_endpoint().value(), {.from = from}, 10s).value();
  EXPECT_EQ(l.accept(10s)->remote_endpoint().value(), from);
}

TEST(socket, connects_over_ipv6) {
  unio::result<listening_socket_handle> l = listening_socket_handle::listen(endpoint::ipv6_loopback(0));
  if (!l) GTEST_SKIP() << "no IPv6 here: " << l.error().message();
  endpoint const at = l->local_endpoint().value();
  socket_handle client = socket_handle::connected_to(at, {.from = endpoint::ipv6_loopback(0)}, 10s).value();
  socket_handle server = l->accept(10s).value();
  EXPECT_EQ(server.remote_endpoint().value(), client.local_endpoint().value());
  ASSERT_TRUE(client.write(unio::const_buffer("six", 3)));
  char memory[8];
  EXPECT_EQ(server.read(memory, 10s).value().bytes(), 3U);
}

// ---- adopting --------------------------------------------------------------------------------------------

TEST(adopt, of_one_kind_of_socket_refuses_all_others) {
  int const stream = ::socket(AF_INET, SOCK_STREAM, 0);
  int const listening = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  int const datagrams = ::socket(AF_INET, SOCK_DGRAM, 0);
  int const packets = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  int const event = ::eventfd(0, 0);
  int const file = ::memfd_create("file", 0);

  for (int const fd : {listening, datagrams, packets})
    EXPECT_EQ(socket_handle::adopt(fd).error(), std::errc::wrong_protocol_type) << fd;
  EXPECT_EQ(listening_socket_handle::adopt(stream).error(), std::errc::invalid_argument);
  for (int const fd : {datagrams, packets})
    EXPECT_EQ(listening_socket_handle::adopt(fd).error(), std::errc::wrong_protocol_type) << fd;
  for (int const fd : {pipe[0], event, file}) {
    EXPECT_EQ(socket_handle::adopt(fd).error(), std::errc::not_a_socket) << fd;
    EXPECT_EQ(listening_socket_handle::adopt(fd).error(), std::errc::not_a_socket) << fd;
    EXPECT_EQ(unio::datagram_handle::adopt(fd).error(), std::errc::not_a_socket) << fd;
  }
  EXPECT_EQ(socket_handle::adopt(-1).error().value(), EBADF);
  EXPECT_EQ(listening_socket_handle::adopt(1'000'000).error().value(), EBADF);
  for (int const fd : {stream, listening, datagrams, packets, pipe[0], event, file}) {
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << "what was refused is as it was";
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
  for (int const fd : {datagrams, packets, pipe[0], pipe[1], event, file}) ::close(fd);

  listening_socket_handle l = listening_socket_handle::adopt(listening).value();
  EXPECT_TRUE(is_close_on_exec(l.native_handle()));
  EXPECT_NE(::fcntl(l.native_handle(), F_GETFL) & O_NONBLOCK, 0);
  socket_handle s = socket_handle::adopt(stream).value();
  ASSERT_TRUE(s.connect(endpoint::ipv4_loopback(l.local_endpoint().value().port()), 10s));
  EXPECT_TRUE(l.accept(10s));
}

} // namespace
