// socket_handle.hpp: sockets, their names and options.

#include "support/temporary_directory.hpp"

#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

namespace {

using namespace std::chrono_literals;
using unio::address_family;
using unio::endpoint;
using unio::listening_socket_handle;
using unio::socket_handle;

int option(unio::handle const& h, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(h.native_handle(), level, name, &value, &size), 0);
  return value;
}

TEST(socket, is_made_for_each_family) {
  for (address_family const f : {address_family::ipv4, address_family::ipv6, address_family::unix_path}) {
    unio::result<socket_handle> const s = socket_handle::create(f);
    if (!s && s.error() == std::errc::address_family_not_supported) continue; // IPv6 may be switched off
    ASSERT_TRUE(s);
    EXPECT_EQ(s->kind(), unio::handle_kind::stream_socket);
    EXPECT_EQ(option(*s, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  }
  EXPECT_EQ(socket_handle::create(address_family::unspecified).error().value(), EAFNOSUPPORT);
}

TEST(socket_pair, is_connected_to_itself) {
  unio::socket_pair const pair = socket_handle::pair().value();
  EXPECT_EQ(::write(pair.first.native_handle(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(pair.second.native_handle(), &c, 1), 1);
  EXPECT_EQ(to_string(pair.first.local_endpoint().value()), "unix:");
}

TEST(socket, takes_options) {
  socket_handle s = socket_handle::create(address_family::ipv4).value();
  ASSERT_TRUE(s.no_delay(true));
  EXPECT_NE(option(s, IPPROTO_TCP, TCP_NODELAY), 0);
  ASSERT_TRUE(s.no_delay(false));
  EXPECT_EQ(option(s, IPPROTO_TCP, TCP_NODELAY), 0);
  ASSERT_TRUE(s.keep_alive(true));
  EXPECT_NE(option(s, SOL_SOCKET, SO_KEEPALIVE), 0);

  struct linger value{};
  socklen_t size = sizeof(value);
  ASSERT_TRUE(s.linger(0));
  ASSERT_EQ(::getsockopt(s.native_handle(), SOL_SOCKET, SO_LINGER, &value, &size), 0);
  EXPECT_NE(value.l_onoff, 0);
  EXPECT_EQ(value.l_linger, 0);
  ASSERT_TRUE(s.linger(-1));
  ASSERT_EQ(::getsockopt(s.native_handle(), SOL_SOCKET, SO_LINGER, &value, &size), 0);
  EXPECT_EQ(value.l_onoff, 0);

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

TEST(listen, tells_the_port_that_was_chosen) {
  listening_socket_handle const l = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at = l.local_endpoint().value();
  EXPECT_EQ(at.family(), address_family::ipv4);
  EXPECT_NE(at.port(), 0);
  EXPECT_NE(option(l, SOL_SOCKET, SO_ACCEPTCONN), 0);
  EXPECT_NE(option(l, SOL_SOCKET, SO_REUSEADDR), 0);
  EXPECT_EQ(option(l, SOL_SOCKET, SO_REUSEPORT), 0);
  EXPECT_EQ(listening_socket_handle::listen(at).error().value(), EADDRINUSE);
}

TEST(listen, shares_a_port_if_both_want_to) {
  unio::listen_options const shared{.reuse_port = true};
  listening_socket_handle const l =
      listening_socket_handle::listen(endpoint::ipv4_loopback(0), shared).value();
  EXPECT_TRUE(listening_socket_handle::listen(l.local_endpoint().value(), shared));
}

TEST(listen, on_ipv6_takes_no_ipv4_unless_told_to) {
  unio::result<listening_socket_handle> const l = listening_socket_handle::listen(endpoint::ipv6_loopback(0));
  if (!l) GTEST_SKIP() << "no IPv6 here: " << l.error().message();
  EXPECT_NE(option(*l, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  listening_socket_handle const both =
      listening_socket_handle::listen(endpoint::ipv6_any(0), {.ipv6_only = false}).value();
  EXPECT_EQ(option(both, IPPROTO_IPV6, IPV6_V6ONLY), 0);
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

} // namespace
