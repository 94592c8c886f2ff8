// datagram_handle.hpp, datagram.hpp: sockets for datagrams, their names and options. What travels over them
// is in kernel/datagram_test.cpp and in the table of operations.

#include "support/descriptors.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <net/if.h>

namespace {

using namespace test;

std::string receive(datagram_handle& h) {
  char memory[64];
  datagram_info info;
  auto const got = h.receive_from(unio::mutable_buffer(memory), info, 10s);
  if (!got) return "error: " + got.error().code().message();
  return std::string(memory, got.bytes_transferred());
}

TEST(datagram, is_made_for_each_family) {
  for (address_family const f : {address_family::ipv4, address_family::ipv6, address_family::unix_path}) {
    auto const s = datagram_handle::create(f);
    ASSERT_TRUE(s) << s.error().code().message();
    EXPECT_EQ(s->kind(), unio::handle_kind::datagram_socket);
    EXPECT_EQ(in_kernel(*s, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
    EXPECT_TRUE(is_close_on_exec(s->native_handle()));
    EXPECT_NE(::fcntl(s->native_handle(), F_GETFL) & O_NONBLOCK, 0);
  }
  auto const sequenced = datagram_handle::create(address_family::unix_path, {.sequenced = true});
  EXPECT_EQ(in_kernel(*sequenced, SOL_SOCKET, SO_TYPE), SOCK_SEQPACKET);
  EXPECT_EQ(datagram_handle::create(address_family::unspecified).error().value(), EAFNOSUPPORT);
}

TEST(datagram, is_asked_for_what_its_options_say) {
  auto const plain = datagram_handle::create(address_family::ipv6).value();
  EXPECT_EQ(in_kernel(plain, IPPROTO_IPV6, IPV6_V6ONLY), 1);
  EXPECT_EQ(in_kernel(plain, IPPROTO_IPV6, IPV6_RECVPKTINFO), 0);
  EXPECT_EQ(in_kernel(plain, IPPROTO_IPV6, IPV6_RECVERR), 0);
  auto const all = datagram_handle::create(address_family::ipv6, {.destination = true,
                                                                  .ecn = true,
                                                                  .gro = true,
                                                                  .errors = true,
                                                                  .timestamps = true,
                                                                  .reuse_address = true,
                                                                  .reuse_port = true,
                                                                  .ipv6_only = false})
                       .value();
  EXPECT_EQ(in_kernel(all, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  for (int const name : {IPV6_RECVPKTINFO, IPV6_RECVERR, IPV6_RECVTCLASS})
    EXPECT_EQ(in_kernel(all, IPPROTO_IPV6, name), 1) << name;
  for (int const name : {IP_PKTINFO, IP_RECVERR, IP_RECVTOS})
    EXPECT_EQ(in_kernel(all, IPPROTO_IP, name), 1) << name;
  for (int const name : {SO_REUSEADDR, SO_REUSEPORT, SO_TIMESTAMPNS})
    EXPECT_EQ(in_kernel(all, SOL_SOCKET, name), 1) << name;
}

TEST(datagram, tells_its_names) {
  auto server = datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
  endpoint const at = server.local_endpoint().value();
  EXPECT_NE(at.port(), 0);
  EXPECT_EQ(server.remote_endpoint().error().value(), ENOTCONN);
  EXPECT_EQ(datagram_handle::bind(at).error().value(), EADDRINUSE);
  auto client = datagram_handle::connected_to(at).value();
  EXPECT_EQ(client.remote_endpoint().value(), at);
  ASSERT_TRUE(client.send_to({}, unio::const_buffer("x", 1)));
  EXPECT_EQ(receive(server), "x");
  ASSERT_TRUE(client.disconnect());
  EXPECT_EQ(client.remote_endpoint().error().value(), ENOTCONN);
  EXPECT_EQ(client.send_to({}, unio::const_buffer("x", 1)).error().value(), EDESTADDRREQ);
  auto both = datagram_handle::pair({.sequenced = true}).value();
  EXPECT_EQ(both.first.disconnect().error().value(), EOPNOTSUPP);
}

TEST(datagram, that_is_connected_receives_from_its_peer_alone) {
  auto server = datagram_handle::bind(endpoint::ipv6_loopback(0)).value();
  auto other = datagram_handle::bind(endpoint::ipv6_loopback(0)).value();
  auto client = datagram_handle::connected_to(server.local_endpoint().value()).value();
  endpoint const to = client.local_endpoint().value();
  ASSERT_TRUE(other.send_to({.to = to}, unio::const_buffer("no", 2)));
  ASSERT_TRUE(server.send_to({.to = to}, unio::const_buffer("yes", 3)));
  EXPECT_EQ(receive(client), "yes");
}

TEST(datagram, shares_a_port_if_both_want_to) {
  auto const first = datagram_handle::bind(endpoint::ipv4_loopback(0), {.reuse_port = true}).value();
  EXPECT_TRUE(datagram_handle::bind(first.local_endpoint().value(), {.reuse_port = true}));
}

TEST(datagram, goes_to_a_path_and_to_an_abstract_name) {
  test::temporary_directory const directory;
  for (endpoint const& at :
       {endpoint::unix_path(directory / "socket").value(),
        endpoint::unix_path("@unio-datagram-test-" + std::to_string(::getpid())).value()}) {
    auto server = datagram_handle::bind(at).value();
    EXPECT_EQ(server.local_endpoint().value(), at);
    auto client = datagram_handle::create(address_family::unix_path).value();
    ASSERT_TRUE(client.send_to({.to = at}, unio::const_buffer("x", 1)));
    char memory[4];
    datagram_info info;
    ASSERT_TRUE(server.receive_from(unio::mutable_buffer(memory), info, 10s));
    EXPECT_EQ(info.from.family() == address_family::unspecified || info.from.path().empty(), true);
  }
  EXPECT_EQ(datagram_handle::connected_to(endpoint::unix_path(directory / "none").value()).error(),
            std::errc::no_such_file_or_directory);
}

// Nothing announces that the queue of a peer that it is not connected to has room again.
TEST(datagram, to_a_full_queue_of_another_waits_for_room) {
  auto server =
      datagram_handle::bind(endpoint::unix_path("@unio-full-queue-" + std::to_string(::getpid())).value())
          .value();
  endpoint const at = server.local_endpoint().value();
  auto const m = unio::io_multiplexer::best_available(1).value();
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), m.get()}) {
    auto client = datagram_handle::create(address_family::unix_path).value();
    client.set_multiplexer(own);
    int filled = 0;
    while (client.try_send_to({.to = at}, unio::const_buffer("x", 1))) ++filled;
    EXPECT_EQ(client.send_to({.to = at}, unio::const_buffer("y", 1), 10ms).error(),
              unio::condition::timed_out);
    EXPECT_EQ(receive(server), "x");
    ASSERT_TRUE(client.send_to({.to = at}, unio::const_buffer("y", 1), 10s));
    for (int i = 1; i < filled; ++i) EXPECT_EQ(receive(server), "x");
    EXPECT_EQ(receive(server), "y");
  }
}

TEST(datagram, of_a_sequenced_pair_keeps_its_bounds_and_ends) {
  auto pair = datagram_handle::pair({.sequenced = true}).value();
  ASSERT_TRUE(pair.first.send_to({}, unio::const_buffer("ab", 2)));
  ASSERT_TRUE(pair.first.send_to({}, unio::const_buffer("c", 1)));
  EXPECT_EQ(receive(pair.second), "ab");
  EXPECT_EQ(receive(pair.second), "c");
  ASSERT_TRUE(pair.first.close());
  EXPECT_EQ(receive(pair.second), "");
  EXPECT_EQ(pair.second.send_to({}, unio::const_buffer("d", 1)).error().value(), EPIPE);
}

TEST(datagram, of_several_buffers_is_sent_whole_also_when_the_last_is_cut) {
  auto pair = datagram_handle::pair().value();
  std::array<unio::const_buffer, 3> const parts = {unio::const_buffer("ab", 2), unio::const_buffer("", 0),
                                                   unio::const_buffer("cdef", 4)};
  unio::const_buffers const list(parts);
  ASSERT_TRUE(pair.first.send_to({}, list));
  EXPECT_EQ(receive(pair.second), "abcdef");
  ASSERT_TRUE(pair.first.send_to({}, list.first(4)));
  EXPECT_EQ(receive(pair.second), "abcd");
  std::vector<unio::const_buffer> const many(9, unio::const_buffer("ab", 2));
  ASSERT_TRUE(pair.first.send_to({}, unio::const_buffers(many)));
  EXPECT_EQ(receive(pair.second), "ababababababababab");
  std::vector<unio::mutable_buffer> rooms(9, unio::mutable_buffer());
  char memory[18];
  for (std::size_t i = 0; i < rooms.size(); ++i) rooms[i] = unio::mutable_buffer(memory + 2 * i, 2);
  datagram_info info;
  EXPECT_EQ(pair.second.try_receive_from(unio::mutable_buffers(rooms).first(17), info).error().value(),
            EINVAL);
}

TEST(datagram, takes_options) {
  for (address_family const f : {address_family::ipv4, address_family::ipv6}) {
    auto s = datagram_handle::create(f).value();
    ASSERT_TRUE(s.broadcast(true));
    EXPECT_EQ(in_kernel(s, SOL_SOCKET, SO_BROADCAST), 1);
    ASSERT_TRUE(s.send_buffer(20'000));
    EXPECT_GE(s.send_buffer().value(), 20'000);
    ASSERT_TRUE(s.receive_buffer(30'000));
    EXPECT_GE(s.receive_buffer().value(), 30'000);
    bool const six = f == address_family::ipv6;
    int const level = six ? IPPROTO_IPV6 : IPPROTO_IP;
    ASSERT_TRUE(s.traffic_class(0x20));
    EXPECT_EQ(in_kernel(s, level, six ? IPV6_TCLASS : IP_TOS), 0x20);
    ASSERT_TRUE(s.hop_limit(7));
    EXPECT_EQ(in_kernel(s, level, six ? IPV6_UNICAST_HOPS : IP_TTL), 7);
    ASSERT_TRUE(s.multicast_hops(3));
    EXPECT_EQ(in_kernel(s, level, six ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL), 3);
    ASSERT_TRUE(s.multicast_loop(false));
    EXPECT_EQ(in_kernel(s, level, six ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP), 0);
  }
}

TEST(datagram, discovers_the_mtu_of_its_path_as_it_is_told) {
  using path_mtu = datagram_handle::path_mtu;
  auto six = datagram_handle::create(address_family::ipv6, {.ipv6_only = false}).value();
  ASSERT_TRUE(six.path_mtu_discovery(path_mtu::probe));
  EXPECT_EQ(in_kernel(six, IPPROTO_IPV6, IPV6_MTU_DISCOVER), IPV6_PMTUDISC_PROBE);
  EXPECT_EQ(in_kernel(six, IPPROTO_IPV6, IPV6_DONTFRAG), 1);
  EXPECT_EQ(in_kernel(six, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_PROBE);
  ASSERT_TRUE(six.path_mtu_discovery(path_mtu::by_route));
  EXPECT_EQ(in_kernel(six, IPPROTO_IPV6, IPV6_DONTFRAG), 0);
  auto four = datagram_handle::create(address_family::ipv4).value();
  ASSERT_TRUE(four.path_mtu_discovery(path_mtu::refuse));
  EXPECT_EQ(in_kernel(four, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
  ASSERT_TRUE(four.path_mtu_discovery(path_mtu::fragment));
  EXPECT_EQ(in_kernel(four, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DONT);
  EXPECT_EQ(four.known_path_mtu().error().value(), ENOTCONN);
  auto const connected = datagram_handle::connected_to(endpoint::ipv4_loopback(9)).value();
  EXPECT_GE(connected.known_path_mtu().value(), 1500);
}

TEST(datagram, options_that_are_not_for_it_are_errors) {
  auto local = datagram_handle::create(address_family::unix_path).value();
  EXPECT_FALSE(local.traffic_class(1));
  EXPECT_EQ(local.join_group(endpoint::ipv4({224, 0, 0, 251}, 0)).error().value(), EINVAL);
  datagram_handle closed;
  EXPECT_EQ(closed.broadcast(true).error().value(), EBADF);
  EXPECT_EQ(closed.local_endpoint().error().value(), EBADF);
  auto four = datagram_handle::create(address_family::ipv4).value();
  EXPECT_EQ(four.join_group(endpoint::ipv4_loopback(0)).error().value(), EINVAL);
  EXPECT_EQ(four.join_group(endpoint()).error().value(), EINVAL);
  endpoint const group6 = endpoint::ipv6({0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0);
  EXPECT_EQ(four.join_group(group6).error().value(), EINVAL) << "of the other family";
  EXPECT_EQ(four.leave_group(group6).error().value(), EINVAL);
  EXPECT_EQ(four.leave_group(endpoint::ipv4({224, 0, 0, 251}, 0)).error().value(), EADDRNOTAVAIL);
}

void expect_multicast(endpoint const& any, endpoint const& group_address, auto with_port) {
  unsigned const lo = ::if_nametoindex("lo");
  auto member = datagram_handle::bind(any, {.destination = true, .reuse_address = true}).value();
  endpoint const group = with_port(member.local_endpoint().value().port());
  if (auto const joined = member.join_group(group_address, lo); !joined)
    GTEST_SKIP() << "no multicast on lo: " << joined.error().code().message();
  auto sender = datagram_handle::create(any.family()).value();
  ASSERT_TRUE(sender.multicast_interface(lo));
  auto const sent = sender.send_to({.to = group}, unio::const_buffer("all", 3));
  if (!sent) GTEST_SKIP() << "no multicast on lo: " << sent.error().code().message();
  char memory[8];
  datagram_info info;
  auto const got = member.receive_from(unio::mutable_buffer(memory), info, 10s);
  ASSERT_TRUE(got) << got.error().code().message();
  EXPECT_EQ(got.bytes_transferred(), 3U);
  EXPECT_EQ(info.interface, lo);
  EXPECT_EQ(info.to, with_port(0));
  ASSERT_TRUE(member.leave_group(group_address, lo));
  EXPECT_FALSE(member.leave_group(group_address, lo));
}

TEST(datagram, joins_a_group_with_a_scope_on_that_interface) {
  unsigned const lo = ::if_nametoindex("lo");
  std::uint8_t const address[16] = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  auto member = datagram_handle::bind(endpoint::ipv6_any(0)).value();
  if (auto const joined = member.join_group(endpoint::ipv6(address, 0), lo); !joined)
    GTEST_SKIP() << "no multicast on lo: " << joined.error().code().message();
  ASSERT_TRUE(member.leave_group(endpoint::ipv6(address, 0), lo));
  ASSERT_TRUE(member.join_group(endpoint::ipv6(address, 0, lo)));
  EXPECT_TRUE(member.leave_group(endpoint::ipv6(address, 0), lo));
}

TEST(datagram, to_a_group_is_received_by_its_members_on_ipv4) {
  auto const group = [](std::uint16_t port) { return endpoint::ipv4({239, 255, 77, 1}, port); };
  expect_multicast(endpoint::ipv4_any(0), group(0), group);
}

TEST(datagram, to_a_group_is_received_by_its_members_on_ipv6) {
  // Of the hosts on one link (RFC 4291 §2.7), so it has a scope.
  auto const group = [](std::uint16_t port) {
    return endpoint::ipv6({0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 1}, port);
  };
  expect_multicast(endpoint::ipv6_any(0), group(0), group);
}

// ---- adopting --------------------------------------------------------------------------------------------

TEST(datagram, is_adopted_and_a_stream_is_not) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
  auto first = datagram_handle::adopt(fds[0]).value();
  auto second = datagram_handle::adopt(fds[1]).value();
  EXPECT_TRUE(is_close_on_exec(first.native_handle()));
  EXPECT_NE(::fcntl(first.native_handle(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_TRUE(first.send_to({}, unio::const_buffer("x", 1)));
  EXPECT_EQ(receive(second), "x");

  int const stream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(datagram_handle::adopt(stream).error(), std::errc::wrong_protocol_type);
  EXPECT_TRUE(unio::io_handle::adopt(stream));
  int const datagrams = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(unio::io_handle::adopt(datagrams).error(), std::errc::wrong_protocol_type);
  EXPECT_TRUE(datagram_handle::adopt(datagrams));
  EXPECT_EQ(datagram_handle::adopt(-1).error().value(), EBADF);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(datagram_handle::adopt(ends[0]).error().value(), ENOTSOCK);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(datagram, that_listens_is_not_adopted) {
  int const s = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr const unnamed{.sa_family = AF_UNIX, .sa_data = {}};
  ASSERT_EQ(::bind(s, &unnamed, sizeof(sa_family_t)), 0); // the kernel chooses an abstract name
  ASSERT_EQ(::listen(s, 1), 0);
  EXPECT_EQ(datagram_handle::adopt(s).error(), std::errc::wrong_protocol_type);
  ::close(s);
}

TEST(datagram, that_queues_errors_is_known_to_when_it_is_adopted) {
  int const s = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int const on = 1;
  ASSERT_EQ(::setsockopt(s, IPPROTO_IP, IP_RECVERR, &on, sizeof on), 0);
  auto adopted = datagram_handle::adopt(s).value();
  endpoint const nobody = datagram_handle::bind(endpoint::ipv4_loopback(0)).value().local_endpoint().value();
  ASSERT_TRUE(adopted.send_to({.to = nobody}, unio::const_buffer("x", 1)));
  char memory[4];
  datagram_info info;
  EXPECT_EQ(adopted.try_receive_from(unio::mutable_buffer(memory), info).error(),
            unio::condition::would_block);
  EXPECT_EQ(adopted.receive_error(10s).value().why, std::errc::connection_refused);
}

// ---- segments --------------------------------------------------------------------------------------------

std::vector<std::string_view> texts(std::string_view joined, std::uint32_t segment) {
  std::vector<std::string_view> all;
  for (unio::const_buffer const b : unio::datagram_segments(unio::const_buffer(joined), segment))
    all.emplace_back(reinterpret_cast<char const*>(b.data()), b.size());
  return all;
}

TEST(datagram_segments, are_of_one_size_but_for_the_last) {
  using list = std::vector<std::string_view>;
  EXPECT_EQ(texts("abcdefg", 3), (list{"abc", "def", "g"}));
  EXPECT_EQ(texts("abcdef", 3), (list{"abc", "def"}));
  EXPECT_EQ(texts("abc", 3), (list{"abc"}));
  EXPECT_EQ(texts("ab", 3), (list{"ab"}));
  EXPECT_EQ(texts("abc", 0), (list{"abc"}));
  EXPECT_EQ(texts("", 0), (list{""}));
  EXPECT_EQ(texts("", 3), (list{""}));
  EXPECT_EQ(texts("abc", 1), (list{"a", "b", "c"}));
}

} // namespace
