// socket_options.hpp: each option of a socket, set and read back, and what is said where it cannot be.

#include "support/descriptors.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <netinet/tcp.h>

namespace {

using namespace test;
using std::chrono::microseconds;
namespace option = unio::option;

// One option: what is set, and the number that the kernel has then.
template <class T> struct one {
  char const* name;
  unio::socket_option<T> o;
  T value;
  int level, kernel_name, kernel_value;
};

template <class T, class Socket> void expect_set(Socket& s, one<T> const& row) {
  SCOPED_TRACE(row.name);
  std::string why;
  auto const set = s.set(row.o, row.value, &why);
  if (!set && set.error() == std::errc::operation_not_permitted) return; // needs a right
  ASSERT_TRUE(set) << why;
  EXPECT_EQ(s.get(row.o).value(), row.value);
  EXPECT_EQ(in_kernel(s, row.level, row.kernel_name), row.kernel_value);
}

constexpr one<bool> switches[] = {
    {"no_delay", option::no_delay, true, IPPROTO_TCP, TCP_NODELAY, 1},
    {"no_delay off", option::no_delay, false, IPPROTO_TCP, TCP_NODELAY, 0},
    {"cork", option::cork, true, IPPROTO_TCP, TCP_CORK, 1},
    {"quick_ack", option::quick_ack, true, IPPROTO_TCP, TCP_QUICKACK, 1},
    {"fast_open_connect", option::fast_open_connect, true, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1},
    {"keep_alive", option::keep_alive, true, SOL_SOCKET, SO_KEEPALIVE, 1},
    {"reuse_address", option::reuse_address, true, SOL_SOCKET, SO_REUSEADDR, 1},
    {"reuse_port", option::reuse_port, true, SOL_SOCKET, SO_REUSEPORT, 1},
    {"dont_route", option::dont_route, true, SOL_SOCKET, SO_DONTROUTE, 1},
    {"transparent", option::transparent, true, IPPROTO_IP, IP_TRANSPARENT, 1},
    {"free_bind", option::free_bind, true, IPPROTO_IP, IP_FREEBIND, 1},
    {"bind_without_port", option::bind_without_port, true, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1},
};
constexpr one<int> numbers[] = {
    {"keep_alive_count", option::keep_alive_count, 5, IPPROTO_TCP, TCP_KEEPCNT, 5},
    {"not_sent_low_water", option::not_sent_low_water, 16384, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384},
    {"syn_retries", option::syn_retries, 3, IPPROTO_TCP, TCP_SYNCNT, 3},
    {"window_clamp", option::window_clamp, 20'000, IPPROTO_TCP, TCP_WINDOW_CLAMP, 20'000},
    {"receive_low_water", option::receive_low_water, 7, SOL_SOCKET, SO_RCVLOWAT, 7},
    {"priority", option::priority, 4, SOL_SOCKET, SO_PRIORITY, 4},
    {"mark", option::mark, 42, SOL_SOCKET, SO_MARK, 42},
    {"incoming_cpu", option::incoming_cpu, 0, SOL_SOCKET, SO_INCOMING_CPU, 0},
};
constexpr one<microseconds> times[] = {
    {"user_timeout", option::user_timeout, 2500ms, IPPROTO_TCP, TCP_USER_TIMEOUT, 2500},
    {"keep_alive_idle", option::keep_alive_idle, 90s, IPPROTO_TCP, TCP_KEEPIDLE, 90},
    {"keep_alive_interval", option::keep_alive_interval, 10s, IPPROTO_TCP, TCP_KEEPINTVL, 10},
    {"linger_2", option::linger_2, 5s, IPPROTO_TCP, TCP_LINGER2, 5},
    {"busy_poll", option::busy_poll, 50us, SOL_SOCKET, SO_BUSY_POLL, 50},
};

TEST(socket_options, are_what_was_set_and_what_the_kernel_has) {
  for (address_family const f : {address_family::ipv4, address_family::ipv6}) {
    SCOPED_TRACE(f == address_family::ipv6 ? "IPv6" : "IPv4");
    auto made = socket_handle::create(f);
    if (!made && made.error() == std::errc::address_family_not_supported) continue;
    socket_handle s = std::move(made).value();
    for (auto const& row : switches) expect_set(s, row);
    for (auto const& row : numbers) expect_set(s, row);
    for (auto const& row : times) expect_set(s, row);
  }
}

TEST(socket_options, of_ipv4_and_ipv6_are_set_for_both) {
  auto six = socket_handle::create(address_family::ipv6);
  if (!six) GTEST_SKIP() << "no IPv6 here: " << six.error().message();
  ASSERT_TRUE(six->set(option::ipv6_only, false));
  EXPECT_FALSE(six->get(option::ipv6_only).value());
  ASSERT_TRUE(six->set(option::traffic_class, 0x20));
  EXPECT_EQ(in_kernel(*six, IPPROTO_IPV6, IPV6_TCLASS), 0x20);
  EXPECT_EQ(in_kernel(*six, IPPROTO_IP, IP_TOS), 0x20);
  ASSERT_TRUE(six->set(option::hop_limit, 7));
  EXPECT_EQ(in_kernel(*six, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 7);
  EXPECT_EQ(in_kernel(*six, IPPROTO_IP, IP_TTL), 7);
  for (auto const how : {unio::path_mtu_discovery::fragment, unio::path_mtu_discovery::by_route,
                         unio::path_mtu_discovery::refuse, unio::path_mtu_discovery::probe}) {
    ASSERT_TRUE(six->set(option::mtu_discovery, how));
    EXPECT_EQ(six->get(option::mtu_discovery).value(), how);
  }
  auto only = socket_handle::create(address_family::ipv6).value();
  ASSERT_TRUE(only.set(option::ipv6_only, true));
  int const before = in_kernel(only, IPPROTO_IP, IP_TOS);
  ASSERT_TRUE(only.set(option::traffic_class, 0x40));
  EXPECT_EQ(in_kernel(only, IPPROTO_IP, IP_TOS), before);
}

TEST(socket_options, of_datagrams_are_their_own) {
  auto s = datagram_handle::create(address_family::ipv4).value();
  expect_set(s, one<bool>{"broadcast", option::broadcast, true, SOL_SOCKET, SO_BROADCAST, 1});
  expect_set(s, one<int>{"hops", option::multicast_hops, 3, IPPROTO_IP, IP_MULTICAST_TTL, 3});
  expect_set(s, one<bool>{"loop", option::multicast_loop, false, IPPROTO_IP, IP_MULTICAST_LOOP, 0});
  EXPECT_FALSE(s.set(option::no_delay, true));
}

TEST(socket_options, that_are_times_are_rounded_up_to_what_the_kernel_counts) {
  auto s = socket_handle::create(address_family::ipv4).value();
  ASSERT_TRUE(s.set(option::keep_alive_idle, 1500ms));
  EXPECT_EQ(s.get(option::keep_alive_idle).value(), 2s);
  ASSERT_TRUE(s.set(option::user_timeout, 1us));
  EXPECT_EQ(s.get(option::user_timeout).value(), 1ms);
  EXPECT_EQ(s.set(option::keep_alive_idle, -1s).error(), std::errc::invalid_argument);
  EXPECT_EQ(s.set(option::user_timeout, std::chrono::hours(24 * 365)).error(), std::errc::invalid_argument);
}

TEST(socket_options, linger_is_a_time_or_the_default) {
  auto s = socket_handle::create(address_family::ipv4).value();
  EXPECT_LT(s.get(option::linger).value(), 0s);
  ASSERT_TRUE(s.set(option::linger, 5s));
  EXPECT_EQ(s.get(option::linger).value(), 5s);
  ASSERT_TRUE(s.set(option::linger, 0s));
  EXPECT_EQ(s.get(option::linger).value(), 0s);
  ASSERT_TRUE(s.set(option::linger, -1s));
  EXPECT_LT(s.get(option::linger).value(), 0s);
}

TEST(socket_options, that_are_texts_are_not_cut) {
  auto s = socket_handle::create(address_family::ipv4).value();
  std::string const algorithm = s.get(option::congestion).value();
  EXPECT_FALSE(algorithm.empty());
  ASSERT_TRUE(s.set(option::congestion, algorithm));
  EXPECT_EQ(s.get(option::congestion).value(), algorithm);
  // The kernel would take the first 15 bytes, which may name another.
  EXPECT_EQ(s.set(option::congestion, "a-name-of-16-byt").error(), std::errc::filename_too_long);
  EXPECT_EQ(s.set(option::congestion, std::string_view("re\0no", 5)).error(), unio::error::embedded_nul);
  EXPECT_EQ(s.get(option::device).value(), "");
  if (s.set(option::device, "lo")) {
    EXPECT_EQ(s.get(option::device).value(), "lo");
  }
  EXPECT_EQ(s.set(option::device, "no-such-device").error().value(), ENODEV);
}

TEST(socket_options, of_a_listening_socket_are_inherited_by_what_it_accepts) {
  auto listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  ASSERT_TRUE(listener.set(option::keep_alive, true));
  ASSERT_TRUE(listener.set(option::keep_alive_idle, 77s));
  auto const client = socket_handle::connected_to(listener.local_endpoint().value(), 10s).value();
  auto const server = listener.accept(10s).value();
  EXPECT_TRUE(server.get(option::keep_alive).value());
  EXPECT_EQ(server.get(option::keep_alive_idle).value(), 77s);
  EXPECT_FALSE(client.get(option::keep_alive).value());
}

TEST(socket_options, before_listening_are_among_its_own) {
  auto listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0), {.reuse_port = true,
                                                                               .free_bind = true,
                                                                               .fast_open = 16,
                                                                               .receive_buffer = 20'000,
                                                                               .defer_accept = 3s})
                      .value();
  EXPECT_TRUE(listener.get(option::reuse_port).value());
  EXPECT_TRUE(listener.get(option::free_bind).value());
  EXPECT_EQ(listener.get(option::fast_open).value(), 16);
  EXPECT_EQ(listener.get(option::receive_buffer).value(), 40'000);
  EXPECT_GE(listener.get(option::defer_accept).value(), 3s);
  // An address that this host does not have.
  endpoint const elsewhere = endpoint::ipv4({192, 0, 2, 1}, 0);
  EXPECT_EQ(listening_socket_handle::listen(elsewhere).error().value(), EADDRNOTAVAIL);
  EXPECT_TRUE(listening_socket_handle::listen(elsewhere, {.free_bind = true}));
  EXPECT_TRUE(datagram_handle::bind(elsewhere, {.free_bind = true, .receive_buffer = 20'000}));
  EXPECT_EQ(listening_socket_handle::listen(endpoint::ipv4_loopback(0), {.device = "no-such-device"})
                .error()
                .value(),
            ENODEV);
}

// The kernel would take what stands before the NUL.
TEST(socket_options, that_are_texts_with_a_nul_are_refused_where_sockets_are_made) {
  std::string_view const device("lo\0no", 5);
  endpoint const at = endpoint::ipv4_loopback(0);
  EXPECT_EQ(listening_socket_handle::listen(at, {.device = device}).error(), unio::error::embedded_nul);
  EXPECT_EQ(socket_handle::create(unio::address_family::ipv4, {.device = device}).error(),
            unio::error::embedded_nul);
  EXPECT_EQ(socket_handle::connected_to(at, {.device = device}).error(), unio::error::embedded_nul);
  EXPECT_EQ(datagram_handle::bind(at, {.device = device}).error(), unio::error::embedded_nul);
}

TEST(socket_options, say_what_cannot_be_set_and_why) {
  std::string why;
  auto local = socket_handle::create(address_family::unix_path).value();
  EXPECT_FALSE(local.set(option::no_delay, true, &why));
  EXPECT_TRUE(why.starts_with("TCP_NODELAY cannot be set to on: ")) << why;
  EXPECT_NE(why.find("not for this socket"), std::string::npos) << why;
  EXPECT_FALSE(local.get(option::no_delay, &why));
  EXPECT_TRUE(why.starts_with("TCP_NODELAY cannot be read: ")) << why;
  auto s = socket_handle::create(address_family::ipv4).value();
  EXPECT_EQ(s.set(option::congestion, "none", &why).error().value(), ENOENT);
  EXPECT_TRUE(why.starts_with("TCP_CONGESTION cannot be set to \"none\": ")) << why;
  EXPECT_NE(why.find("no such algorithm"), std::string::npos) << why;
  EXPECT_FALSE(s.set(option::hop_limit, 1000, &why));
  EXPECT_TRUE(why.starts_with("IP_TTL cannot be set to 1000: ")) << why;
  EXPECT_FALSE(s.set(option::keep_alive_idle, -1s, &why));
  EXPECT_TRUE(why.starts_with("TCP_KEEPIDLE cannot be set to -1000000 us: ")) << why;
  socket_handle closed;
  EXPECT_EQ(closed.set(option::keep_alive, true).error().value(), EBADF);
  EXPECT_EQ(closed.get(option::linger).error().value(), EBADF);
  auto pipe = unio::pipe_handle::anonymous().value();
  EXPECT_EQ(set_option(pipe.reader, option::keep_alive, true).error().value(), ENOTSOCK);
}

TEST(socket_options, without_a_name_are_set_raw) {
  auto s = socket_handle::create(address_family::ipv4).value();
  int const most = 1;
  ASSERT_TRUE(set_raw_option(s, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, std::as_bytes(std::span(&most, 1))));
  std::array<std::byte, 16> room{};
  auto const got = get_raw_option(s, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, room);
  ASSERT_TRUE(got);
  ASSERT_EQ(got->size(), sizeof(int));
  EXPECT_EQ(std::to_integer<int>((*got)[0]), 1);
  EXPECT_EQ(get_raw_option(s, IPPROTO_TCP, 12345, room).error().value(), ENOPROTOOPT);
}

TEST(socket_options, tell_the_error_that_waits_once) {
  auto listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  auto client = socket_handle::connected_to(listener.local_endpoint().value(), 10s).value();
  auto server = listener.accept(10s).value();
  EXPECT_EQ(client.get(option::pending_error).value(), 0);
  ASSERT_TRUE(server.linger(0));
  ASSERT_TRUE(server.close());
  ASSERT_TRUE(client.poll(unio::readiness::readable, 10s));
  EXPECT_EQ(client.get(option::pending_error).value(), ECONNRESET);
  EXPECT_EQ(client.get(option::pending_error).value(), 0);
}

TEST(socket_options, tell_what_tcp_knows_of_a_connection) {
  auto listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  auto client = socket_handle::connected_to(listener.local_endpoint().value(), 10s).value();
  auto server = listener.accept(10s).value();
  char memory[8];
  ASSERT_TRUE(client.write(std::string_view("hello")));
  ASSERT_EQ(server.read(memory, 10s).value().bytes(), 5U);
  auto const of_server = server.information().value();
  EXPECT_EQ(of_server.bytes_received, 5U);
  EXPECT_EQ(of_server.total_retransmits, 0U);
  EXPECT_FALSE(of_server.fast_open);
  auto const of_client = client.information().value();
  EXPECT_GT(of_client.round_trip, 0us);
  EXPECT_GT(of_client.maximum_segment, 500U);
  EXPECT_GT(of_client.congestion_window, 0U);
  EXPECT_GE(client.get(option::path_mtu).value(), 1280);
  EXPECT_EQ(socket_handle::pair().value().first.information().error().value(), EOPNOTSUPP);
}

} // namespace
