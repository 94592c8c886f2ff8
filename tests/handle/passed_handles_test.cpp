// passed_handles.hpp: descriptors that travel over Unix sockets, and credentials.

#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/process_handle.hpp>

namespace {

using namespace test;

// Sends one byte with `n` duplicates of standard input, and whatever else is asked for, without unio.
void send_many(int socket, std::size_t n) {
  char byte = 'x';
  iovec v{.iov_base = &byte, .iov_len = 1};
  std::vector<char> control(CMSG_SPACE(n * sizeof(int)));
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  m.msg_control = control.data();
  m.msg_controllen = control.size();
  cmsghdr* const c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(n * sizeof(int));
  std::vector<int> const fds(n, socket);
  std::memcpy(CMSG_DATA(c), fds.data(), n * sizeof(int));
  ASSERT_EQ(::sendmsg(socket, &m, MSG_NOSIGNAL), 1) << std::strerror(errno);
}

struct ends {
  unio::socket_handle first, second;
  ends() {
    auto pair = unio::socket_handle::pair().value();
    first = std::move(pair.first);
    second = std::move(pair.second);
  }
};

TEST(passed_handles, are_taken_one_by_one_as_what_they_are) {
  ends socket;
  auto pipe = unio::pipe_handle::anonymous().value();
  auto datagrams = datagram_handle::bind(unio::endpoint::ipv4_loopback(0)).value();
  unio::handle const* const list[] = {&pipe.writer, &datagrams, &pipe.reader};
  ASSERT_TRUE(unio::send_handles(socket.first, unio::const_buffer("three", 5), list));
  char memory[16];
  auto got = unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s);
  ASSERT_TRUE(got);
  EXPECT_EQ(got.bytes_transferred(), 5U);
  EXPECT_EQ(got->bytes.bytes(), 5U);
  passed_handles handles = std::move(got->handles);
  EXPECT_TRUE(got->handles.empty());
  ASSERT_EQ(handles.size(), 3U);
  EXPECT_FALSE(handles.truncated());
  EXPECT_EQ(handles.take(1).error(), std::errc::wrong_protocol_type); // and it stays
  EXPECT_EQ(handles.take_datagrams(1).value().local_endpoint().value(), datagrams.local_endpoint().value());
  EXPECT_EQ(handles.take_datagrams(1).error().value(), EBADF);
  EXPECT_EQ(handles.take(3).error().value(), EBADF);
  EXPECT_EQ(handles.release(3), -1);
  unio::io_handle writer = handles.take(0).value();
  EXPECT_EQ(writer.kind(), unio::handle_kind::pipe);
  ASSERT_TRUE(writer.write(unio::const_buffer("!", 1)));
  EXPECT_EQ(pipe.reader.read(unio::mutable_buffer(memory), 10s).bytes_transferred(), 1U);
  int const reader = handles.release(2);
  EXPECT_TRUE(is_close_on_exec(reader));
  EXPECT_EQ(::close(reader), 0);
}

TEST(passed_handles, that_are_not_taken_are_closed) {
  ends socket;
  std::ptrdiff_t const before = count_descriptors();
  char memory[4];
  for (int i = 0; i < 3; ++i) {
    send_many(socket.first.native_handle(), 5);
    auto got = unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->handles.size(), 5U);
    EXPECT_EQ(count_descriptors(), before + 5);
    got->handles = passed_handles();
    EXPECT_EQ(count_descriptors(), before);
  }
}

TEST(passed_handles, that_are_too_many_are_cut_and_none_leaks) {
  ends socket;
  std::ptrdiff_t const before = count_descriptors();
  char memory[4];
  for (std::size_t const n : {passed_handles::capacity - 1, passed_handles::capacity,
                              passed_handles::capacity + 1, std::size_t{60}, std::size_t{253}}) {
    send_many(socket.first.native_handle(), n);
    {
      auto got = unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s);
      ASSERT_TRUE(got);
      EXPECT_EQ(got->handles.size(), std::min(n, passed_handles::capacity));
      EXPECT_EQ(got->handles.truncated(), n > passed_handles::capacity);
    }
    EXPECT_EQ(count_descriptors(), before) << n;
  }
}

TEST(passed_handles, that_this_process_may_not_have_are_said_to_be_cut) {
  test::expect_in_child([] {
    ends socket;
    send_many(socket.first.native_handle(), 8);
    int const next = ::dup(0);
    ::close(next);
    rlimit const limit{static_cast<rlim_t>(next + 3), static_cast<rlim_t>(next + 3)};
    CHILD_EXPECTS(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    char memory[4];
    auto const got = unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s);
    CHILD_EXPECTS(got);
    CHILD_EXPECTS(got->handles.truncated());
    return CHILD_MEETS(got->handles.size() < 8);
  });
}

TEST(passed_handles, that_nobody_asked_for_are_dropped) {
  std::ptrdiff_t const before = count_descriptors();
  {
    auto pair = datagram_handle::pair().value();
    ends stream;
    std::ptrdiff_t const with_sockets = count_descriptors();
    char memory[4];
    unio::datagram_info info;
    for (int i = 0; i < 3; ++i) {
      send_many(pair.first.native_handle(), 3);
      EXPECT_TRUE(pair.second.receive_from(unio::mutable_buffer(memory), info, 10s));
      send_many(pair.first.native_handle(), 3);
      std::array<unio::received_datagram, 2> batch;
      batch[0].room = unio::mutable_buffer(memory);
      EXPECT_TRUE(pair.second.receive_batch(batch, 10s));
      send_many(stream.first.native_handle(), 3);
      EXPECT_TRUE(stream.second.read(unio::mutable_buffer(memory), 10s));
    }
    EXPECT_EQ(count_descriptors(), with_sockets);
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST(passed_handles, are_refused_where_they_cannot_be_sent) {
  ends socket;
  unio::pipe_handle closed;
  unio::handle const* const not_open[] = {&closed};
  EXPECT_EQ(unio::send_handles(socket.first, unio::const_buffer("x", 1), not_open).error().value(), EINVAL);
  std::vector<unio::handle const*> const many(passed_handles::capacity + 1, &socket.first);
  EXPECT_EQ(unio::send_handles(socket.first, unio::const_buffer("x", 1), many).error().value(), EINVAL);
  unio::handle const* const one[] = {&socket.first};
  EXPECT_EQ(unio::send_handles(socket.first, unio::const_buffer("", 0), one).error().value(), EINVAL);
  // Without handles it is a plain message, and to nobody an error.
  EXPECT_TRUE(unio::send_handles(socket.first, unio::const_buffer("x", 1), {}));
  char memory[4];
  EXPECT_EQ(unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s)->handles.size(), 0U);
  ASSERT_TRUE(socket.second.close());
  EXPECT_EQ(unio::send_handles(socket.first, unio::const_buffer("x", 1), one).error().value(), EPIPE);
  EXPECT_EQ(unio::receive_handles(socket.first, unio::mutable_buffer(memory), 10s)->bytes.bytes(), 0U);
}

TEST(passed_handles, are_not_waited_for_by_those_that_try) {
  ends socket;
  char memory[4];
  auto const nothing = unio::try_receive_handles(socket.second, unio::mutable_buffer(memory));
  EXPECT_EQ(nothing.error(), unio::condition::would_block);
  unio::handle const* const one[] = {&socket.first};
  ASSERT_TRUE(unio::try_send_handles(socket.first, unio::const_buffer("x", 1), one));
  auto const got = unio::try_receive_handles_for(socket.second, unio::mutable_buffer(memory), 10s);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->handles.size(), 1U);
}

TEST(passed_handles, end_a_receive_on_a_stream) {
  ends socket;
  unio::handle const* const one[] = {&socket.first};
  ASSERT_TRUE(unio::send_handles(socket.first, unio::const_buffer("ab", 2), one));
  ASSERT_TRUE(unio::send_handles(socket.first, unio::const_buffer("cd", 2), one));
  char memory[16];
  for (int i = 0; i < 2; ++i) {
    auto const got = unio::receive_handles(socket.second, unio::mutable_buffer(memory), 10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got.bytes_transferred(), 2U);
    EXPECT_EQ(got->handles.size(), 1U);
  }
}

// An operation that is destroyed after the message has come closes what came with it.
TEST(passed_handles, of_an_operation_that_is_destroyed_are_closed) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  ends socket;
  socket.second.set_multiplexer(m.get());
  struct receiver {
    void set_value(unio::async_receive_handles::result_type&&) noexcept {}
    void set_done() noexcept {}
  };
  char memory[4];
  for (int turns = 0; turns < 3; ++turns) {
    std::ptrdiff_t before = 0;
    {
      auto op =
          unio::connect(unio::async_receive_handles(socket.second, unio::mutable_buffer(memory)), receiver{});
      op.start();
      (void)m->try_run();
      before = count_descriptors();
      send_many(socket.first.native_handle(), 4);
      for (int i = 0; i < turns; ++i) (void)m->try_run();
    }
    EXPECT_EQ(count_descriptors(), before) << turns;
    // What was not taken is there for the next.
    while (unio::receive_handles(socket.second, unio::mutable_buffer(memory), unio::deadline::zero())) {
    }
  }
}

TEST(credentials, are_those_of_the_process_at_the_other_end) {
  ends socket;
  auto const mine = unio::credentials_of_peer(socket.first).value();
  EXPECT_EQ(mine.process, ::getpid());
  EXPECT_EQ(mine.user, ::geteuid());
  EXPECT_EQ(mine.group, ::getegid());
  unio::endpoint const at =
      unio::endpoint::unix_path("@unio-credentials-" + std::to_string(::getpid())).value();
  auto listener = unio::listening_socket_handle::listen(at).value();
  test::expect_in_child([&] { return unio::socket_handle::connected_to(at, 10s).has_value() ? 0 : 1; });
  auto const accepted = listener.accept(10s).value();
  EXPECT_NE(unio::credentials_of_peer(accepted).value().process, ::getpid());
  auto const tcp = unio::socket_handle::create(unio::address_family::ipv4).value();
  EXPECT_EQ(unio::credentials_of_peer(tcp).error().value(), EOPNOTSUPP);
  auto const alone = unio::socket_handle::create(unio::address_family::unix_path).value();
  EXPECT_EQ(unio::credentials_of_peer(alone).error().value(), ENOTCONN);
  EXPECT_EQ(unio::credentials_of_peer(unio::handle()).error().value(), EBADF);
}

// A peer outside of a container, say. A connection of a process that this one cannot see is one all the same.
TEST(credentials, of_a_process_in_another_namespace_lack_its_number_alone) {
  ends socket; // made by this process
  int const status = test::in_child([&] {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return 77;
    return test::in_child([&] {
      auto const its = unio::credentials_of_peer(socket.first);
      CHILD_EXPECTS(its.has_value());
      CHILD_EXPECTS(its->process == 0 && its->user != static_cast<unsigned>(-1));
      auto const alone = unio::socket_handle::create(unio::address_family::unix_path).value();
      return CHILD_MEETS(unio::credentials_of_peer(alone).error().value() == ENOTCONN);
    });
  });
  if (status == 77) GTEST_SKIP() << "no right to make a namespace of processes";
  EXPECT_EQ(status, 0);
}

TEST(credentials, give_a_handle_of_the_process) {
  ends socket;
  auto const me = unio::process_handle::of_peer(socket.first);
  if (me.error() == std::errc::no_protocol_option) GTEST_SKIP() << "before Linux 6.5";
  ASSERT_TRUE(me) << me.error().message();
  EXPECT_EQ(me->id(), ::getpid());
  EXPECT_GT(me->native_handle(), 2);
  EXPECT_TRUE(is_close_on_exec(me->native_handle()));

  // A child connects, and lives until it is told to end.
  unio::endpoint const at = unio::endpoint::unix_path("@unio-process-" + std::to_string(::getpid())).value();
  auto listener = unio::listening_socket_handle::listen(at).value();
  pid_t const child = ::fork();
  if (child == 0) {
    auto const connected = unio::socket_handle::connected_to(at, 10s);
    for (;;) ::pause();
  }
  auto const accepted = listener.accept(10s).value();
  auto its = unio::process_handle::of_peer(accepted).value();
  EXPECT_EQ(its.id(), child);
  EXPECT_TRUE(its.try_wait().error() == unio::condition::would_block);
  EXPECT_TRUE(its.kill(SIGKILL));
  EXPECT_TRUE(its.wait(10s));

  auto const tcp = unio::socket_handle::create(unio::address_family::ipv4).value();
  EXPECT_EQ(unio::process_handle::of_peer(tcp).error().value(), EOPNOTSUPP);
  auto const alone = unio::socket_handle::create(unio::address_family::unix_path).value();
  EXPECT_EQ(unio::process_handle::of_peer(alone).error().value(), ENOTCONN);
  EXPECT_EQ(unio::process_handle::of_peer(unio::handle()).error().value(), EBADF);
}

} // namespace
