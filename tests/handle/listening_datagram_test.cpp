// listening_datagram_handle.hpp: sequenced Unix connections, which keep messages apart. What their operation
// does is in the table of operations.

#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/listening_datagram_handle.hpp>

namespace {

using namespace test;

endpoint address(char const* what) {
  return endpoint::unix_path("@unio-" + std::string(what) + "-" + std::to_string(::getpid())).value();
}
datagram_handle connected(endpoint const& to) {
  return datagram_handle::connected_to(to, {.sequenced = true}).value();
}
void send(datagram_handle& over, std::string_view bytes) {
  unio::send_description const to_the_peer;
  EXPECT_EQ(over.send_to(to_the_peer, unio::const_buffer(bytes), 10s).bytes_transferred(), bytes.size());
}
std::string received_by(datagram_handle& from) {
  char memory[64];
  unio::datagram_info info;
  auto const got = from.receive_from(unio::mutable_buffer(memory), info, 10s);
  if (!got) return "error: " + got.error().code().message();
  return std::string(memory, got.bytes_transferred()) + (info.truncated ? "…" : "");
}

TEST(listening_datagram, accepts_connections_that_keep_messages_apart) {
  endpoint const at = address("sequenced");
  auto listening = listening_datagram_handle::listen(at).value();
  EXPECT_EQ(listening.kind(), unio::handle_kind::listening_socket);
  EXPECT_EQ(listening.local_endpoint().value(), at);
  EXPECT_TRUE(listening.try_accept().error() == unio::condition::would_block);
  EXPECT_TRUE(listening.accept(1ms).error() == unio::condition::timed_out);

  datagram_handle first = connected(at);
  datagram_handle second = connected(at);
  send(first, "one");
  send(first, "");
  send(first, "and two");
  send(second, std::string(100, 'x'));
  datagram_handle peer = listening.accept(10s).value();
  EXPECT_EQ(peer.kind(), unio::handle_kind::datagram_socket);
  EXPECT_NE(::fcntl(peer.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(peer.native_handle(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(received_by(peer), "one");
  EXPECT_EQ(received_by(peer), "");
  EXPECT_EQ(received_by(peer), "and two");
  EXPECT_EQ(unio::credentials_of_peer(peer).value().process, ::getpid());
  datagram_handle other = listening.try_accept().value();
  EXPECT_EQ(received_by(other), std::string(64, 'x') + "…");
  send(peer, "answer");
  EXPECT_EQ(received_by(first), "answer");
  ASSERT_TRUE(first.close());
  EXPECT_EQ(received_by(peer), ""); // the end
}

unio::task<> answer_one(listening_datagram_handle& listening) {
  auto accepted = co_await listening.co_accept(10s);
  datagram_handle& peer = accepted.value();
  char memory[64];
  unio::datagram_info info;
  auto const got = co_await peer.co_receive_from(unio::mutable_buffer(memory), info, 10s);
  unio::send_description const back;
  auto const sent = co_await peer.co_send_to(back, unio::const_buffer(memory, got.bytes_transferred()), 10s);
  EXPECT_TRUE(sent);
}

TEST(listening_datagram, accepts_in_a_coroutine) {
  endpoint const at = address("awaited");
  auto const m = unio::io_multiplexer::best_available().value();
  auto listening = listening_datagram_handle::listen(at).value();
  listening.set_multiplexer(m.get());
  auto const client = [](endpoint to) -> unio::task<> {
    datagram_handle mine = connected(to);
    send(mine, "ask");
    EXPECT_EQ(received_by(mine), "ask");
    co_return;
  };
  std::jthread const asks([&] { unio::run(client(at)); });
  unio::run(*m, answer_one(listening));
}

TEST(listening_datagram, is_made_of_a_path_and_leaves_none_behind_on_failure) {
  test::temporary_directory const directory;
  endpoint const at = endpoint::unix_path(directory / "socket").value();
  {
    auto const listening = listening_datagram_handle::listen(at);
    ASSERT_TRUE(listening) << listening.error().code().message();
    EXPECT_EQ(listening_datagram_handle::listen(at).error(), std::errc::address_in_use);
  }
  EXPECT_EQ(listening_datagram_handle::listen(endpoint::ipv4_loopback(0)).error(),
            std::errc::address_family_not_supported);
  EXPECT_EQ(listening_datagram_handle::listen(endpoint()).error(), std::errc::address_family_not_supported);
}

TEST(listening_datagram, adopts_only_what_listens_for_messages) {
  int const s = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  EXPECT_EQ(listening_datagram_handle::adopt(s).error(), std::errc::invalid_argument);
  sockaddr const any{.sa_family = AF_UNIX, .sa_data = {}};
  ASSERT_EQ(::bind(s, &any, sizeof(any.sa_family)), 0); // the kernel picks an abstract name
  ASSERT_EQ(::listen(s, 1), 0);
  EXPECT_EQ(datagram_handle::adopt(s).error(), std::errc::wrong_protocol_type);
  auto listening = listening_datagram_handle::adopt(s).value();
  datagram_handle mine = connected(listening.local_endpoint().value());
  EXPECT_TRUE(listening.accept(10s));

  auto stream = unio::listening_socket_handle::listen(address("stream")).value();
  EXPECT_EQ(listening_datagram_handle::adopt(stream.native_handle()).error(), std::errc::wrong_protocol_type);
  EXPECT_EQ(listening_datagram_handle::adopt(mine.native_handle()).error(), std::errc::invalid_argument);
  EXPECT_EQ(listening_datagram_handle::adopt(-1).error(), std::errc::bad_file_descriptor);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(listening_datagram_handle::adopt(ends[0]).error(), std::errc::not_a_socket);
  ::close(ends[0]);
  ::close(ends[1]);
}

} // namespace
