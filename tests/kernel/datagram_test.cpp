// Datagrams through the real loopback, on each driver: what comes with them, what a kernel may refuse, and
// what becomes of errors.
//
// What of the hard cases of datagrams has no test here, and why: UDP_SEGMENT is never set as an option of the
// socket, so nothing has to be reset after probing; recvmmsg(2) is called without a timeout, because the
// table of system calls gives it no way to have one; there is no multishot recvmsg.

#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

#include <net/if.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>

namespace {

using namespace test;

class kernel_datagram : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_datagram);

datagram_handle bound(endpoint const& at, datagram_options o, unio::io_multiplexer* m) {
  datagram_handle h = datagram_handle::bind(at, o).value();
  h.set_multiplexer(m);
  return h;
}

/// The pieces that arrive, until `bytes` have.
std::vector<std::size_t> sizes_received(datagram_handle& h, std::size_t bytes) {
  std::vector<std::size_t> sizes;
  std::vector<char> memory(65535);
  for (std::size_t n = 0; n < bytes;) {
    datagram_info info;
    auto const got = h.receive_from(unio::mutable_buffer(memory), info, 10s);
    if (!got) break;
    for (unio::const_buffer const one : unio::segments(got->front(), info)) sizes.push_back(one.size());
    n += got.bytes_transferred();
  }
  return sizes;
}

// ---- what comes with a datagram --------------------------------------------------------------------------

void expect_everything_is_told(endpoint const& at, unio::io_multiplexer* m) {
  datagram_options const all{.destination = true, .ecn = true, .gro = true, .timestamps = true};
  datagram_handle server = bound(at, all, m);
  datagram_handle client = bound(at, {}, m);
  endpoint const to = server.local_endpoint().value();
  auto const before =
      std::chrono::system_clock::now() - 1s; // the kernel's clock and ours may differ a little
  for (ecn const mark : {ecn::not_capable, ecn::ect0, ecn::ect1, ecn::congestion}) {
    ASSERT_TRUE(client.send_to({.to = to, .ecn = mark}, unio::const_buffer("hello", 5)));
    char memory[16];
    datagram_info info;
    auto const got = server.receive_from(unio::mutable_buffer(memory), info, 10s);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(text_of(*got), "hello");
    EXPECT_EQ(info.from, client.local_endpoint().value());
    EXPECT_EQ(info.to.family(), at.family());
    EXPECT_NE(info.interface, 0U);
    EXPECT_EQ(info.ecn, mark);
    EXPECT_FALSE(info.truncated);
    EXPECT_GE(info.at, before);
    EXPECT_EQ(unio::segments(got->front(), info).size(), 1U);
    // Back the way it came.
    unio::send_description const back{.to = info.from, .from = info.to, .interface = info.interface};
    ASSERT_TRUE(server.send_to(back, unio::const_buffer("back", 4)));
    auto const answer = client.receive_from(unio::mutable_buffer(memory), info, 10s);
    ASSERT_TRUE(answer);
    EXPECT_EQ(text_of(*answer), "back");
    EXPECT_EQ(info.from, to);
  }
}

DRIVER_TEST(kernel_datagram, is_told_where_when_and_how_it_came) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    expect_everything_is_told(endpoint::ipv4_loopback(0), own);
    expect_everything_is_told(endpoint::ipv6_loopback(0), own);
  }
}

DRIVER_TEST(kernel_datagram, to_an_ipv4_host_from_an_ipv6_socket_is_marked_and_has_its_source) {
  datagram_handle both =
      bound(endpoint::ipv6_any(0), {.destination = true, .ecn = true, .ipv6_only = false}, &m);
  datagram_handle four = bound(endpoint::ipv4_loopback(0), {.destination = true, .ecn = true}, &m);
  std::uint16_t const port = four.local_endpoint().value().port();
  endpoint const mapped = endpoint::ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, port);
  endpoint const source = endpoint::ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 9}, 0);
  char memory[8];
  datagram_info info;
  ASSERT_TRUE(both.send_to({.to = mapped, .from = source, .ecn = ecn::ect0}, unio::const_buffer("x", 1)));
  ASSERT_TRUE(four.receive_from(unio::mutable_buffer(memory), info, 10s));
  EXPECT_EQ(info.ecn, ecn::ect0);
  EXPECT_TRUE(to_string(info.from).starts_with("127.0.0.9:")) << to_string(info.from);
  // And what such a host sends is told of likewise.
  ASSERT_TRUE(four.send_to({.to = info.from, .ecn = ecn::congestion}, unio::const_buffer("y", 1)));
  ASSERT_TRUE(both.receive_from(unio::mutable_buffer(memory), info, 10s));
  EXPECT_EQ(info.ecn, ecn::congestion);
  EXPECT_EQ(info.from, mapped);
  EXPECT_NE(info.interface, 0U);
  // Connected to it, without naming it.
  ASSERT_TRUE(both.connect(mapped));
  ASSERT_TRUE(both.send_to({.ecn = ecn::ect1}, unio::const_buffer("z", 1)));
  ASSERT_TRUE(four.receive_from(unio::mutable_buffer(memory), info, 10s));
  EXPECT_EQ(info.ecn, ecn::ect1);
}

/// The traffic class of the next datagram, as it arrives.
int class_received(datagram_handle& h) {
  char byte;
  alignas(cmsghdr) char control[64];
  iovec room{&byte, 1};
  msghdr m{};
  m.msg_iov = &room;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  pollfd p{.fd = h.native_handle(), .events = POLLIN, .revents = 0};
  if (::poll(&p, 1, 10'000) != 1 || ::recvmsg(h.native_handle(), &m, 0) < 0) return -1;
  int value = 0; // a byte of IPv4's, four of IPv6's
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
    if (c->cmsg_type == IP_TOS || c->cmsg_type == IPV6_TCLASS)
      std::memcpy(&value, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  return value;
}

DRIVER_TEST(kernel_datagram, that_is_marked_keeps_the_traffic_class_of_its_socket) {
  constexpr int expedited = 46 << 2;
  for (endpoint const& at : {endpoint::ipv4_loopback(0), endpoint::ipv6_loopback(0)}) {
    datagram_handle server = bound(at, {.ecn = true}, &m);
    unio::send_description const how{.to = server.local_endpoint().value(), .ecn = ecn::ect0};
    std::array<unio::datagram_to_send, 1> one{{{.how = how, .bytes = unio::const_buffer("x", 1)}}};
    for (int const way : {0, 1, 2}) {
      datagram_handle client = bound(at, {}, &m);
      if (way == 0) {
        ASSERT_TRUE(client.traffic_class(expedited));
      } else if (way == 1) {
        int const value = expedited;
        bool const four = at.family() == address_family::ipv4;
        ASSERT_TRUE(unio::set_raw_option(client, four ? IPPROTO_IP : IPPROTO_IPV6,
                                         four ? IP_TOS : IPV6_TCLASS, std::as_bytes(std::span(&value, 1))));
      } else {
        ASSERT_TRUE(client.traffic_class(expedited));
        client = datagram_handle::adopt(client.release()).value();
        client.set_multiplexer(&m);
      }
      ASSERT_TRUE(client.send_to(how, unio::const_buffer("x", 1)));
      EXPECT_EQ(class_received(server), expedited | 2) << way;
      ASSERT_TRUE(client.send_batch(one));
      EXPECT_EQ(class_received(server), expedited | 2) << way;
      ASSERT_TRUE(client.send_to({.to = how.to}, unio::const_buffer("x", 1)));
      EXPECT_EQ(class_received(server), expedited) << way;
    }
  }
}

DRIVER_TEST(kernel_datagram, that_does_not_fit_says_so_at_every_size) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, &m);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, &m);
  std::string const sent = "0123456789";
  for (std::size_t room = 0; room <= sent.size() + 1; ++room) {
    ASSERT_TRUE(client.send_to({.to = server.local_endpoint().value()}, unio::const_buffer(sent)));
    char memory[16];
    datagram_info info;
    auto const got = server.receive_from(unio::mutable_buffer(memory, room), info, 10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got.bytes_transferred(), std::min(room, sent.size()));
    EXPECT_EQ(info.truncated, room < sent.size()) << room;
    EXPECT_EQ(info.from, client.local_endpoint().value());
  }
}

DRIVER_TEST(kernel_datagram, without_bytes_is_one_among_others) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, &m);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, &m);
  endpoint const to = server.local_endpoint().value();
  for (char const* const text : {"", "a", "", ""})
    ASSERT_TRUE(client.send_to({.to = to}, unio::const_buffer(std::string_view(text))));
  for (std::string_view const text : {"", "a", "", ""}) {
    char memory[4];
    datagram_info info;
    auto const got = server.receive_from(unio::mutable_buffer(memory), info, 10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(text_of(*got), text);
  }
}

DRIVER_TEST(kernel_datagram, goes_to_one_of_the_receives_that_wait) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, &m);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  char memory[2][8];
  datagram_info info[2];
  tally told[2];
  auto first = unio::connect(unio::async_receive_from(server, unio::mutable_buffer(memory[0]), info[0]),
                             tell{&told[0]});
  auto second = unio::connect(unio::async_receive_from(server, unio::mutable_buffer(memory[1]), info[1]),
                              tell{&told[1]});
  first.start();
  second.start();
  submit_all(m);
  ASSERT_TRUE(client.send_to({.to = server.local_endpoint().value()}, unio::const_buffer("a", 1)));
  ASSERT_TRUE(drive(m, [&] { return told[0].ended() || told[1].ended(); }));
  EXPECT_EQ(told[0].ends + told[1].ends, 1);
  ASSERT_TRUE(client.send_to({.to = server.local_endpoint().value()}, unio::const_buffer("b", 1)));
  ASSERT_TRUE(drive(m, [&] { return told[0].ended() && told[1].ended(); }));
  EXPECT_EQ((std::set<char>{memory[0][0], memory[1][0]}), (std::set<char>{'a', 'b'}));
}

// ---- a receiving side that was shut down ------------------------------------------------------------------

enum class shut_kind { connected, unconnected, local };

datagram_handle made_to_shut(shut_kind kind, unio::io_multiplexer* m) {
  datagram_handle h;
  if (kind == shut_kind::local) {
    h = datagram_handle::pair().value().first;
  } else if (kind == shut_kind::connected) {
    h = datagram_handle::connected_to(endpoint::ipv4_loopback(9)).value();
  } else {
    h = datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
  }
  h.set_multiplexer(m);
  return h;
}

// By foreign code, perhaps in another process; or by the handle. Without a peer UDP says ENOTCONN, and does
// it.
void shut(datagram_handle& h, bool by_foreign_code) {
  if (by_foreign_code) {
    ::shutdown(h.native_handle(), SHUT_RD);
  } else {
    (void)h.shutdown(datagram_handle::side::receive);
  }
}

template <class F> void for_each_to_shut(unio::io_multiplexer& m, F f) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m})
    for (shut_kind const kind : {shut_kind::connected, shut_kind::unconnected, shut_kind::local})
      for (bool const by_foreign_code : {false, true}) f(made_to_shut(kind, own), kind, by_foreign_code);
}

DRIVER_TEST(kernel_datagram, ends_each_receive_once_its_own_side_was_shut_down) {
  for_each_to_shut(m, [](datagram_handle h, shut_kind kind, bool by_foreign_code) {
    char memory[8];
    datagram_info info;
    EXPECT_EQ(h.try_receive_from(unio::mutable_buffer(memory), info).error(), unio::condition::would_block);
    shut(h, by_foreign_code);
    for (int i = 0; i < 2; ++i) {
      info.from = endpoint::ipv4_loopback(1);
      auto const one = h.receive_from(unio::mutable_buffer(memory), info, 10s);
      ASSERT_TRUE(one) << one.error().message();
      EXPECT_EQ(one.bytes_transferred(), 0U);
      EXPECT_EQ(info.from.size(), 0U);
      std::array<unio::received_datagram, 2> in{};
      in[0].size = 7;
      EXPECT_EQ(h.receive_batch(in, 10s).value(), 1U);
      EXPECT_EQ(in[0].size, 0U);
      if (kind == shut_kind::local) {
        EXPECT_EQ(unio::receive_handles(h, unio::mutable_buffer(memory), 10s).value().bytes.bytes(), 0U);
      }
    }
    if (!by_foreign_code) {
      EXPECT_TRUE(h.try_receive_from(unio::mutable_buffer(memory), info));
    }
    if (kind != shut_kind::unconnected) return;
    datagram_handle other = bound(endpoint::ipv4_loopback(0), {}, nullptr); // Linux goes on receiving
    ASSERT_TRUE(other.send_to({.to = h.local_endpoint().value()}, unio::const_buffer("a", 1)));
    EXPECT_EQ(text_of(h.receive_from(unio::mutable_buffer(memory), info, 10s).value()), "a");
    EXPECT_EQ(h.receive_from(unio::mutable_buffer(memory), info, 10s).value().bytes(), 0U);
  });
}

// `waited_before`: the driver has been told of the end when a receive begins.
void expect_ends_that_wait(unio::io_multiplexer& m, bool waited_before) {
  for_each_to_shut(m, [&](datagram_handle h, shut_kind, bool by_foreign_code) {
    h.set_multiplexer(&m);
    char memory[8];
    datagram_info info;
    std::array<unio::received_datagram, 1> in{};
    tally one, batch;
    if (waited_before) {
      EXPECT_EQ(h.receive_from(unio::mutable_buffer(memory), info, 2ms).error(), unio::condition::timed_out);
      shut(h, by_foreign_code);
      submit_all(m);
    }
    auto first = unio::connect(unio::async_receive_from(h, unio::mutable_buffer(memory), info), tell{&one});
    auto second = unio::connect(unio::async_receive_batch(h, in), tell{&batch});
    first.start();
    second.start();
    submit_all(m);
    if (!waited_before) shut(h, by_foreign_code);
    ASSERT_TRUE(drive(m, [&] { return one.ended() && batch.ended(); }));
    EXPECT_FALSE(one.error);
    EXPECT_EQ(one.bytes, 0U);
    EXPECT_FALSE(batch.error);
  });
}
DRIVER_TEST(kernel_datagram, ends_receives_that_wait_when_its_own_side_is_shut_down) {
  expect_ends_that_wait(m, false);
}
DRIVER_TEST(kernel_datagram, ends_receives_that_begin_after_the_driver_was_told_of_it) {
  expect_ends_that_wait(m, true);
}

// No thread runs the multiplexer: only poll() looks.
DRIVER_TEST(kernel_datagram, ends_receives_that_are_only_polled_when_its_own_side_is_shut_down) {
  for_each_to_shut(m, [&](datagram_handle h, shut_kind, bool by_foreign_code) {
    h.set_multiplexer(&m);
    char memory[8];
    datagram_info info;
    std::array<unio::received_datagram, 1> in{};
    started one{unio::async_receive_from(h, unio::mutable_buffer(memory), info)};
    started batch{unio::async_receive_batch(h, in)};
    for (int i = 0; i != 3; ++i) {
      (void)one.poll();
      (void)batch.poll();
    }
    shut(h, by_foreign_code);
    for (auto const& poll :
         {std::function([&] { return one.poll(); }), std::function([&] { return batch.poll(); })}) {
      auto const give_up = std::chrono::steady_clock::now() + long_time;
      while (poll() == unio::io_status::pending && std::chrono::steady_clock::now() < give_up) continue;
    }
    EXPECT_TRUE(one.ended());
    EXPECT_TRUE(batch.ended());
    EXPECT_EQ(one.bytes, 0U);
    EXPECT_FALSE(one.error);
    EXPECT_FALSE(batch.error);
  });
}

ISOLATED_TEST(kernel_datagram, ends_a_blocking_receive_when_another_thread_shuts_its_side) {
  datagram_handle h = made_to_shut(shut_kind::connected, nullptr);
  std::jthread other([&] {
    std::this_thread::sleep_for(5ms);
    ::shutdown(h.native_handle(), SHUT_RD);
  });
  char memory[8];
  datagram_info info;
  EXPECT_EQ(h.receive_from(unio::mutable_buffer(memory), info, long_time).value().bytes(), 0U);
}

// A hang-up ends each wait at once, and is no report.
DRIVER_TEST(kernel_datagram, a_wait_for_errors_of_one_that_was_shut_down_does_not_spin) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle h = made_to_shut(shut_kind::connected, own);
    ASSERT_TRUE(h.shutdown(datagram_handle::side::both));
    failing_calls calls;
    EXPECT_EQ(h.receive_error(200ms).error(), unio::condition::timed_out);
    EXPECT_LT(calls.count_all(), 2000);
  }
}

// ---- segments --------------------------------------------------------------------------------------------

std::vector<std::size_t> cut(std::size_t bytes, std::size_t segment) {
  std::vector<std::size_t> sizes(bytes / segment, segment);
  if (bytes % segment != 0) sizes.push_back(bytes % segment);
  return sizes;
}

/// Sends all of it, however many calls that takes.
void send_all(datagram_handle& from, unio::send_description const& how, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const sent = from.send_to(how, unio::const_buffer(bytes));
    ASSERT_TRUE(sent) << sent.error().message();
    ASSERT_NE(sent.bytes_transferred(), 0U);
    bytes.remove_prefix(sent.bytes_transferred());
  }
}

DRIVER_TEST(kernel_datagram, is_cut_into_segments_and_joined_again) {
  for (bool const joins : {false, true}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {.gro = joins}, &m);
    (void)server.receive_buffer(4 << 20);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, &m);
    for (std::size_t const bytes : {1U, 1199U, 1200U, 1201U, 2400U, 64'800U, 64'801U, 100'000U}) {
      std::string const sent(bytes, 's');
      send_all(client, {.to = server.local_endpoint().value(), .segment = 1200}, sent);
      EXPECT_EQ(sizes_received(server, bytes), cut(bytes, 1200)) << bytes << (joins ? ", joined" : "");
    }
  }
}

/// The same of buffers of `piece` bytes, with buffers left out from the front as they are sent.
void send_all_in_pieces(datagram_handle& from, unio::send_description const& how, std::string_view bytes,
                        std::size_t piece) {
  std::vector<unio::const_buffer> list;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    list.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  for (std::span<unio::const_buffer const> rest = list; !rest.empty();) {
    auto const sent = from.send_to(how, rest);
    ASSERT_TRUE(sent) << sent.error().message();
    ASSERT_NE(sent.bytes_transferred(), 0U);
    std::size_t const whole = sent.bytes_transferred() / piece;
    ASSERT_TRUE(sent.bytes_transferred() % piece == 0 || whole + 1 == rest.size());
    rest = rest.subspan(std::min(rest.size(), whole + (sent.bytes_transferred() % piece != 0 ? 1 : 0)));
  }
}

// One call takes 1024 of them.
DRIVER_TEST(kernel_datagram, is_cut_into_segments_however_many_buffers_it_lies_in) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, own);
    (void)server.receive_buffer(4 << 20);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, own);
    for (std::size_t const piece : {10U, 50U, 500U}) {
      std::string const sent(100'050, 's');
      unio::send_description const how{.to = server.local_endpoint().value(), .segment = 1000};
      send_all_in_pieces(client, how, sent, piece);
      EXPECT_EQ(sizes_received(server, sent.size()), cut(sent.size(), 1000)) << piece;
    }
  }
}

DRIVER_TEST(kernel_datagram, that_is_one_segment_is_not_asked_to_be_cut) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  failing_calls calls;
  static int with_control = 0;
  with_control = 0;
  calls.answer<&table::sendmsg>([](int fd, msghdr const* h, int flags) noexcept {
    if (h->msg_controllen != 0) ++with_control;
    return unio::sys::kernel.sendmsg(fd, h, flags);
  });
  unio::send_description const how{.to = server.local_endpoint().value(), .segment = 1200};
  std::string const bytes(1201, 's');
  ASSERT_TRUE(client.send_to(how, unio::const_buffer(bytes.data(), 1200)));
  EXPECT_EQ(with_control, 0);
  ASSERT_TRUE(client.send_to(how, unio::const_buffer(bytes.data(), 1201)));
  EXPECT_EQ(with_control, 1);
}

// A socket that computes no checksums is refused with EINVAL (net/ipv4/udp.c, udp_send_skb), and only when it
// sends.
DRIVER_TEST(kernel_datagram, goes_singly_where_the_kernel_will_not_cut_and_that_is_remembered) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, own);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, own);
    int const on = 1;
    ASSERT_EQ(::setsockopt(client.native_handle(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
    std::string const sent(5000, 's');
    unio::send_description const how{
        .to = server.local_endpoint().value(), .segment = 1200, .ecn = ecn::ect0};
    for (int i = 0; i < 3; ++i) {
      send_all(client, how, sent);
      EXPECT_EQ(sizes_received(server, sent.size()), cut(sent.size(), 1200));
    }
    failing_calls calls; // what is remembered is seen in the calls
    static bool asks_for_segments = false;
    asks_for_segments = false;
    calls.answer<&table::sendmsg>([](int fd, msghdr const* h, int flags) noexcept {
      msghdr copy = *h;
      for (cmsghdr* c = CMSG_FIRSTHDR(&copy); c != nullptr; c = CMSG_NXTHDR(&copy, c))
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT) asks_for_segments = true;
      return unio::sys::kernel.sendmsg(fd, h, flags);
    });
    send_all(client, how, sent);
    EXPECT_FALSE(asks_for_segments);
    EXPECT_EQ(sizes_received(server, sent.size()), cut(sent.size(), 1200));
  }
}

ISOLATED_TEST(kernel_datagram, goes_singly_after_each_error_by_which_cutting_is_refused) {
  for (int const error : {EIO, EINVAL, EMSGSIZE}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, nullptr);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, nullptr);
    failing_calls calls;
    static int refused_with = 0;
    refused_with = error;
    calls.answer<&table::sendmsg>([](int fd, msghdr const* h, int flags) noexcept -> std::int64_t {
      return h->msg_controllen != 0 ? -refused_with : unio::sys::kernel.sendmsg(fd, h, flags);
    });
    std::string const sent(3000, 's');
    send_all(client, {.to = server.local_endpoint().value(), .segment = 1200}, sent);
    EXPECT_EQ(sizes_received(server, sent.size()), cut(sent.size(), 1200)) << error;
  }
}

ISOLATED_TEST(kernel_datagram, goes_without_a_mark_that_is_refused_and_that_is_remembered) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {.ecn = true}, nullptr);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  failing_calls calls;
  static int marked = 0;
  marked = 0;
  calls.answer<&table::sendmsg>([](int fd, msghdr const* h, int flags) noexcept -> std::int64_t {
    msghdr copy = *h;
    for (cmsghdr* c = CMSG_FIRSTHDR(&copy); c != nullptr; c = CMSG_NXTHDR(&copy, c))
      if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) return ++marked, -EINVAL;
    return unio::sys::kernel.sendmsg(fd, h, flags);
  });
  for (int i = 0; i < 2; ++i) {
    std::string const sent(3000, 's');
    send_all(client, {.to = server.local_endpoint().value(), .segment = 1200, .ecn = ecn::ect0}, sent);
    EXPECT_EQ(sizes_received(server, sent.size()), cut(sent.size(), 1200));
    EXPECT_EQ(marked, 3); // as one message, with care, and without segments; all once
  }
}

// ---- batches ---------------------------------------------------------------------------------------------

DRIVER_TEST(kernel_datagram, comes_in_batches_with_nothing_lost_and_in_order) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {.ecn = true}, own);
    (void)server.receive_buffer(4 << 20);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, own);
    constexpr std::size_t count = 50;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < count; ++i) texts.push_back(std::to_string(i) + std::string(i, '.'));
    std::vector<unio::datagram_to_send> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      out[i].how = {.to = server.local_endpoint().value(), .ecn = ecn::ect1};
      out[i].bytes = unio::const_buffer(texts[i]);
    }
    std::size_t sent = 0;
    while (sent < count) {
      auto const r = client.send_batch(std::span(out).subspan(sent));
      ASSERT_TRUE(r) << r.error().message();
      sent += *r;
    }
    std::vector<std::array<char, 128>> memory(count);
    std::vector<unio::received_datagram> in(count);
    for (std::size_t i = 0; i < count; ++i) in[i].room = unio::mutable_buffer(memory[i]);
    std::size_t received = 0;
    while (received < count) {
      auto const r = server.receive_batch(std::span(in).subspan(received), 10s);
      ASSERT_TRUE(r) << r.error().message();
      received += *r;
    }
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(text_of(in[i].data()), texts[i]);
      EXPECT_EQ(in[i].info.from, client.local_endpoint().value());
      EXPECT_EQ(in[i].info.ecn, ecn::ect1);
    }
    EXPECT_EQ(server.receive_batch({}).value(), 0U);
    EXPECT_EQ(client.send_batch({}).value(), 0U);
    EXPECT_EQ(server.try_receive_batch(in).error(), unio::condition::would_block);
  }
}

DRIVER_TEST(kernel_datagram, of_a_batch_are_sent_again_with_it) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, own);
    datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, own);
    std::array<unio::datagram_to_send, 2> out;
    for (std::string const text : {"first", "the second", "3"}) {
      for (unio::datagram_to_send& d : out) d.bytes = unio::const_buffer(text);
      out[0].how = {.to = server.local_endpoint().value()};
      out[1].how = {.to = server.local_endpoint().value(), .segment = 4};
      auto const sent = client.send_batch(out);
      ASSERT_TRUE(sent) << text << ": " << sent.error().message();
      EXPECT_EQ(*sent, 2U);
      EXPECT_EQ(sent.bytes_transferred(), 2 * text.size());
      std::string got;
      while (got.size() < 2 * text.size()) {
        char memory[16];
        datagram_info info;
        auto const one = server.receive_from(unio::mutable_buffer(memory), info, 10s);
        ASSERT_TRUE(one);
        got += text_of(*one);
      }
      EXPECT_EQ(got, text + text);
    }
  }
}

ISOLATED_TEST(kernel_datagram, of_a_batch_that_cannot_be_sent_ends_it_there) {
  datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  datagram_handle client = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  std::string const large(65'508, 'x');
  unio::send_description const how{.to = server.local_endpoint().value()};
  std::array<unio::datagram_to_send, 3> out{{{.how = how, .bytes = unio::const_buffer("a", 1)},
                                             {.how = how, .bytes = unio::const_buffer(large)},
                                             {.how = how, .bytes = unio::const_buffer("b", 1)}}};
  auto const first = client.send_batch(out);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, 1U);
  EXPECT_EQ(first.bytes_transferred(), 1U);
  EXPECT_EQ(client.send_batch(std::span(out).subspan(1)).error(), std::errc::message_size);
  EXPECT_EQ(client.send_batch(std::span(out).subspan(2)).value(), 1U);
}

// ---- errors ----------------------------------------------------------------------------------------------

endpoint nobody() {
  return datagram_handle::bind(endpoint::ipv4_loopback(0)).value().local_endpoint().value();
}

DRIVER_TEST(kernel_datagram, to_a_port_where_nobody_listens_ends_one_operation_and_not_the_socket) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    endpoint const to = nobody();
    datagram_handle client = datagram_handle::connected_to(to).value();
    client.set_multiplexer(own);
    char memory[8];
    datagram_info info;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(client.send_to({}, unio::const_buffer("x", 1)));
      auto const r = client.receive_from(unio::mutable_buffer(memory), info, 10s);
      EXPECT_EQ(r.error(), std::errc::connection_refused);
    }
    EXPECT_EQ(client.try_receive_from(unio::mutable_buffer(memory), info).error(),
              unio::condition::would_block);
    datagram_handle server = bound(to, {}, own);
    ASSERT_TRUE(client.send_to({}, unio::const_buffer("x", 1)));
    ASSERT_TRUE(server.receive_from(unio::mutable_buffer(memory), info, 10s));
    ASSERT_TRUE(server.send_to({.to = info.from}, unio::const_buffer("y", 1)));
    EXPECT_EQ(text_of(client.receive_from(unio::mutable_buffer(memory), info, 10s).value()), "y");
  }
}

DRIVER_TEST(kernel_datagram, of_a_batch_learn_what_an_earlier_one_met) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle client = datagram_handle::connected_to(nobody()).value();
    client.set_multiplexer(own);
    auto const send = [&] {
      std::array<unio::datagram_to_send, 1> one{{{.bytes = unio::const_buffer("x", 1)}}};
      return client.send_batch(one);
    };
    ASSERT_TRUE(send());
    pollfd p{.fd = client.native_handle(), .events = 0, .revents = 0};
    ASSERT_EQ(::poll(&p, 1, 10'000), 1); // the answer has come
    EXPECT_EQ(send().error(), std::errc::connection_refused);
    EXPECT_TRUE(send()) << "which ends one operation and not the socket";
  }
}

// The kernel tells of it once; what was sent counts, and so a call that would lose it is not made.
DRIVER_TEST(kernel_datagram, that_are_sent_by_several_calls_leave_what_they_meet_to_the_next_operation) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    std::array<unio::const_buffer, 2> const parts{unio::const_buffer("ab", 2), unio::const_buffer("c", 1)};
    char memory[8];
    datagram_info info;
    for (bool const is_batch : {false, true}) {
      datagram_handle client = datagram_handle::connected_to(nobody()).value();
      client.set_multiplexer(own);
      if (is_batch) { // the first by a call of its own
        std::array<unio::datagram_to_send, 2> out{
            {{.bytes = unio::const_buffers(parts)}, {.bytes = unio::const_buffer("x", 1)}}};
        EXPECT_GE(client.send_batch(out).value(), 1U);
      } else {
        unio::sys::note_waited(client.native_handle(), unio::sys::sends_singly_bit, true);
        EXPECT_GE(client.send_to({.segment = 2}, unio::const_buffer("abcd", 4)).bytes_transferred(), 2U);
      }
      EXPECT_EQ(client.receive_from(unio::mutable_buffer(memory), info, 10s).error(),
                std::errc::connection_refused);
    }
  }
}

// The kernel tells of it once: to the call that gets nothing else.
DRIVER_TEST(kernel_datagram, of_a_large_batch_loses_no_error_that_comes_in_the_middle) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle server = bound(endpoint::ipv4_loopback(0), {}, own);
    datagram_handle client = datagram_handle::connected_to(server.local_endpoint().value()).value();
    client.set_multiplexer(own);
    for (int i = 0; i < 32; ++i)
      ASSERT_TRUE(server.send_to({.to = client.local_endpoint().value()}, unio::const_buffer("x", 1)));
    ASSERT_TRUE(server.close());
    failing_calls calls;
    calls.answer<&table::recvmmsg>([](int fd, mmsghdr* all, unsigned n, int flags) noexcept {
      std::int64_t const r = unio::sys::kernel.recvmmsg(fd, all, n, flags);
      if (r == 32) { // the peer is gone
        pollfd p{.fd = fd, .events = 0, .revents = 0};
        if (::send(fd, "x", 1, MSG_NOSIGNAL) == 1) (void)::poll(&p, 1, 10'000);
      }
      return r;
    });
    std::array<char, 40> memory{};
    std::array<unio::received_datagram, 40> in;
    for (std::size_t i = 0; i < in.size(); ++i) in[i].room = unio::mutable_buffer(&memory[i], 1);
    EXPECT_EQ(client.receive_batch(in, 10s).value(), 32U);
    EXPECT_EQ(client.receive_batch(in, 10s).error(), std::errc::connection_refused);
  }
}

DRIVER_TEST(kernel_datagram, while_it_waits_learns_of_an_error_at_once) {
  datagram_handle client = datagram_handle::connected_to(nobody()).value();
  client.set_multiplexer(&m);
  char memory[8];
  datagram_info info;
  tally told;
  auto op = unio::connect(unio::async_receive_from(client, unio::mutable_buffer(memory), info), tell{&told});
  op.start();
  submit_all(m);
  ASSERT_EQ(told.values, 0);
  ASSERT_EQ(::send(client.native_handle(), "x", 1, 0), 1);
  ASSERT_TRUE(drive(m, [&] { return told.ended(); }));
  EXPECT_EQ(told.error, std::errc::connection_refused);
}

// With a queue of errors nothing else is disturbed by them.
DRIVER_TEST(kernel_datagram, errors_that_are_queued_come_from_the_queue_alone) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle socket = bound(endpoint::ipv4_loopback(0), {.errors = true}, own);
    datagram_handle peer = bound(endpoint::ipv4_loopback(0), {}, own);
    endpoint const lost[] = {nobody(), nobody(), nobody()};
    for (endpoint const& to : lost) {
      auto const sent = socket.send_to({.to = to}, unio::const_buffer("x", 1));
      ASSERT_TRUE(sent) << sent.error().message();
    }
    char memory[8];
    datagram_info info;
    ASSERT_TRUE(peer.send_to({.to = socket.local_endpoint().value()}, unio::const_buffer("a", 1)));
    EXPECT_EQ(text_of(socket.receive_from(unio::mutable_buffer(memory), info, 10s).value()), "a");
    EXPECT_EQ(socket.try_receive_from(unio::mutable_buffer(memory), info).error(),
              unio::condition::would_block);
    for (endpoint const& to : lost) {
      auto const e = socket.receive_error(10s);
      ASSERT_TRUE(e) << e.error().message();
      EXPECT_EQ(e->what, unio::datagram_error::kind::unreachable);
      EXPECT_EQ(e->why, std::errc::connection_refused);
      EXPECT_EQ(e->to, to);
      EXPECT_TRUE(to_string(e->reported_by).starts_with("127.0.0.1:")) << to_string(e->reported_by);
    }
    EXPECT_EQ(socket.try_receive_error().error(), unio::condition::would_block);
  }
}

// EPOLLERR stays up while an error is in the queue. A wait that ends at once would begin again at once.
DRIVER_TEST(kernel_datagram, errors_that_nobody_takes_do_not_spin) {
  for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m}) {
    datagram_handle socket = bound(endpoint::ipv4_loopback(0), {.errors = true}, own);
    ASSERT_TRUE(socket.send_to({.to = nobody()}, unio::const_buffer("x", 1)));
    char memory[8];
    datagram_info info;
    {
      failing_calls calls;
      EXPECT_EQ(socket.receive_from(unio::mutable_buffer(memory), info, 200ms).error(),
                unio::condition::timed_out);
      EXPECT_LT(calls.count_all(), 2000);
    }
    // What comes meanwhile is received, and afterwards it waits as others do.
    datagram_handle peer = bound(endpoint::ipv4_loopback(0), {}, own);
    ASSERT_TRUE(peer.send_to({.to = socket.local_endpoint().value()}, unio::const_buffer("a", 1)));
    EXPECT_EQ(text_of(socket.receive_from(unio::mutable_buffer(memory), info, 10s).value()), "a");
    ASSERT_TRUE(socket.receive_error(10s));
    EXPECT_EQ(socket.receive_from(unio::mutable_buffer(memory), info, 20ms).error(),
              unio::condition::timed_out);
  }
}

DRIVER_TEST(kernel_datagram, is_received_while_another_operation_waits_for_errors) {
  datagram_handle socket = bound(endpoint::ipv4_loopback(0), {.errors = true}, &m);
  char memory[8];
  datagram_info info;
  tally of_errors, of_bytes;
  auto errors = unio::connect(unio::async_receive_error(socket), tell{&of_errors});
  auto bytes =
      unio::connect(unio::async_receive_from(socket, unio::mutable_buffer(memory), info), tell{&of_bytes});
  errors.start();
  bytes.start();
  submit_all(m);
  endpoint const to = nobody();
  ASSERT_EQ(::sendto(socket.native_handle(), "x", 1, 0, static_cast<sockaddr const*>(to.data()), to.size()),
            1);
  ASSERT_TRUE(drive(m, [&] { return of_errors.ended(); }));
  EXPECT_FALSE(of_errors.error);
  EXPECT_EQ(of_bytes.values, 0);
  datagram_handle peer = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  ASSERT_TRUE(peer.send_to({.to = socket.local_endpoint().value()}, unio::const_buffer("a", 1)));
  ASSERT_TRUE(drive(m, [&] { return of_bytes.ended(); }));
  EXPECT_EQ(of_bytes.bytes, 1U);
}

// What the kernel says that nobody expects is passed on, after one call.
ISOLATED_TEST(kernel_datagram, errno_of_each_call_is_passed_on_after_one_call) {
  for (int const error : {EBADMSG, ENOMEM, ENOBUFS, EFAULT, ENXIO}) {
    std::error_code const expected(error, std::system_category());
    datagram_handle h = bound(endpoint::ipv4_loopback(0), {}, nullptr);
    endpoint const at = h.local_endpoint().value();
    char memory[4];
    datagram_info info;
    std::array<unio::received_datagram, 2> in{{{.room = unio::mutable_buffer(memory)}, {}}};
    std::array<unio::datagram_to_send, 1> out{{{.how = {.to = at}, .bytes = unio::const_buffer("x", 1)}}};
    failing_calls calls;
    calls.fail<&table::recvmsg>(error, {.times = which_calls::all});
    calls.fail<&table::recvmmsg>(error, {.times = which_calls::all});
    calls.fail<&table::sendmsg>(error, {.times = which_calls::all});
    EXPECT_EQ(h.receive_from(unio::mutable_buffer(memory), info).error(), expected);
    EXPECT_EQ(calls.count<&table::recvmsg>(), 1);
    EXPECT_EQ(h.receive_batch(in).error(), expected);
    EXPECT_EQ(calls.count<&table::recvmmsg>(), 1);
    EXPECT_EQ(h.receive_error().error(), expected);
    EXPECT_EQ(h.send_to({.to = at}, unio::const_buffer("x", 1)).error(), expected);
    EXPECT_EQ(calls.count<&table::sendmsg>(), 1);
    // What sendmmsg(2) refuses is sent alone, which says why.
    calls.fail<&table::sendmmsg>(EPERM, {.times = which_calls::all});
    EXPECT_EQ(h.send_batch(out).error(), expected);
    calls.fail<&table::socket>(error, {.times = which_calls::all});
    EXPECT_EQ(datagram_handle::create(address_family::ipv4).error(), expected);
    calls.fail<&table::socket>(0);
    calls.fail<&table::bind>(error, {.times = which_calls::all});
    EXPECT_EQ(datagram_handle::bind(endpoint::ipv4_loopback(0)).error(), expected);
    calls.fail<&table::setsockopt>(error, {.times = which_calls::all});
    EXPECT_EQ(datagram_handle::create(address_family::ipv4, {.destination = true}).error(), expected);
    // What is only asked for may be refused.
    EXPECT_TRUE(
        datagram_handle::create(address_family::ipv4, {.ecn = true, .gro = true, .timestamps = true}));
  }
}

// Signals and a readiness that is none change nothing.
ISOLATED_TEST(kernel_datagram, calls_that_are_interrupted_are_repeated) {
  datagram_handle h = bound(endpoint::ipv4_loopback(0), {}, nullptr);
  endpoint const at = h.local_endpoint().value();
  char memory[4];
  datagram_info info;
  failing_calls calls;
  calls.fail<&table::sendmsg>(EINTR, {.times = 3});
  calls.fail<&table::recvmsg>(EINTR, {.times = 3});
  ASSERT_TRUE(h.send_to({.to = at}, unio::const_buffer("x", 1)));
  ASSERT_TRUE(h.receive_from(unio::mutable_buffer(memory), info));
  EXPECT_EQ(calls.failures<&table::sendmsg>() + calls.failures<&table::recvmsg>(), 6);
}

// ---- a network of its own --------------------------------------------------------------------------------

// Its loopback has the MTU of an Ethernet, and there is no route to anywhere else. False: no rights.
bool enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  raw const s(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq r{};
  std::strcpy(r.ifr_name, "lo");
  r.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(s.fd(), SIOCSIFFLAGS, &r) != 0) return false;
  r.ifr_mtu = 1500;
  return ::ioctl(s.fd(), SIOCSIFMTU, &r) == 0;
}

ISOLATED_TEST(kernel_datagram, that_is_larger_than_the_path_takes_is_too_big) {
  if (!enter_own_network()) GTEST_SKIP() << "no right to make a network namespace";
  auto const m = made_multiplexer();
  for (endpoint const& at : {endpoint::ipv4_loopback(0), endpoint::ipv6_loopback(0)}) {
    datagram_handle server = bound(at, {}, m.get());
    datagram_handle client = bound(at, {.errors = true}, m.get());
    std::string const large(2000, 'x');
    std::vector<char> memory(4000);
    datagram_info info;
    unio::send_description const how{.to = server.local_endpoint().value()};
    // Fragmented, unless that is forbidden.
    ASSERT_TRUE(client.send_to(how, unio::const_buffer(large)));
    EXPECT_EQ(server.receive_from(unio::mutable_buffer(memory), info, 10s).bytes_transferred(), large.size());
    for (auto const mode : {datagram_handle::path_mtu::refuse, datagram_handle::path_mtu::probe}) {
      ASSERT_TRUE(client.path_mtu_discovery(mode));
      EXPECT_EQ(client.send_to(how, unio::const_buffer(large)).error(), std::errc::message_size);
      auto const e = client.receive_error(10s);
      ASSERT_TRUE(e);
      EXPECT_EQ(e->what, unio::datagram_error::kind::too_big);
      EXPECT_EQ(e->mtu, 1500U);
      while (client.try_receive_error()) continue;
      // What fits goes, and so do segments that fit.
      send_all(client, {.to = how.to, .segment = 1400}, std::string(4000, 's'));
      EXPECT_EQ(sizes_received(server, 4000), cut(4000, 1400));
    }
  }
}

ISOLATED_TEST(kernel_datagram, to_a_network_without_a_route_is_an_error) {
  if (!enter_own_network()) GTEST_SKIP() << "no right to make a network namespace";
  auto const m = made_multiplexer();
  datagram_handle client = datagram_handle::create(address_family::ipv4).value();
  client.set_multiplexer(m.get());
  EXPECT_EQ(client.send_to({.to = endpoint::ipv4({192, 0, 2, 1}, 9)}, unio::const_buffer("x", 1)).error(),
            std::errc::network_unreachable);
  EXPECT_EQ(datagram_handle::connected_to(endpoint::ipv4({192, 0, 2, 1}, 9)).error(),
            std::errc::network_unreachable);
}

} // namespace
