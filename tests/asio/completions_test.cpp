// Asio's sockets and descriptors by completions (ASIO_HAS_IO_URING and ASIO_DISABLE_EPOLL): what differs
// from the reactor, whose tests run on it too.

#include "asio.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace test;

/// How many completions the only ring of the process has brought; -1: there is none.
long completions() {
  for (int fd = 3; fd != 64; ++fd) {
    char name[64] = {};
    std::string const number = std::to_string(fd);
    if (::readlink(("/proc/self/fd/" + number).c_str(), name, sizeof name - 1) < 0) continue;
    if (std::string(name) != "anon_inode:[io_uring]") continue;
    std::ifstream info("/proc/self/fdinfo/" + number);
    for (std::string line; std::getline(info, line);)
      if (line.rfind("CqTail:", 0) == 0) return std::stol(line.substr(7));
  }
  return -1;
}

// The canary: with a reactor's readiness a message has one completion at most, and a system call for each
// half.
TEST(asio_completions, both_halves_of_a_message_are_made_by_the_ring) {
  asio::io_context c(1);
  connection pair(c);
  auto& service = asio::use_service<asio::detail::io_uring_service>(c);
  if (std::string(service.driver().driver()) != "io_uring") GTEST_SKIP() << "there is no ring";
  constexpr int messages = 50;
  long const before = completions();
  char byte = 0;
  for (int i = 0; i != messages; ++i) {
    bool sent = false;
    bool received = false;
    pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { received = !e; });
    pair.here.async_write_some(asio::buffer("x", 1), [&](failure e, std::size_t) { sent = !e; });
    c.restart();
    c.run();
    ASSERT_TRUE(sent && received);
  }
  if (before < 0) GTEST_SKIP() << "the kernel does not tell how many completions a ring has had";
  EXPECT_GE(completions() - before, 2 * messages);
}

TEST(asio_completions, bytes_that_have_arrived_are_lost_by_no_cancel) {
  asio::io_context c;
  connection pair(c);
  for (int i = 0; i != 200; ++i) {
    char got[2] = {};
    std::size_t n = 0;
    pair.there.async_read_some(asio::buffer(got, 1), [&](failure e, std::size_t bytes) {
      if (e) {
        EXPECT_EQ(e, asio::error::operation_aborted);
        EXPECT_EQ(bytes, 0U);
      }
      n = bytes;
    });
    c.restart();
    if (i % 2 == 0) c.poll();
    asio::write(pair.here, asio::buffer("x", 1));
    if (i % 3 == 0) c.poll();
    pair.there.cancel();
    c.run();
    if (n == 0) n = pair.there.read_some(asio::buffer(got, 1));
    ASSERT_EQ(n, 1U);
    ASSERT_EQ(got[0], 'x');
  }
}

TEST(asio_completions, cancel_leaves_what_the_driver_has_to_the_driver) {
  asio::io_context c;
  connection pair(c);
  connection other(c);
  char got[3] = {};
  std::size_t bytes[3] = {};
  std::vector<int> order;
  for (int i = 0; i != 3; ++i)
    pair.there.async_read_some(asio::buffer(&got[i], 1), [&, i](failure, std::size_t n) {
      bytes[i] = n;
      order.push_back(i);
    });
  char byte = 0;
  other.there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
  c.poll();
  asio::write(pair.here, asio::buffer("x", 1));
  other.there.close(); // a ring is entered, and receives what has come
  pair.there.cancel();
  c.restart();
  c.run();
  EXPECT_EQ(order, (std::vector{1, 2, 0}));
  EXPECT_EQ(bytes[1] + bytes[2], 0u);
  if (bytes[0] == 0) bytes[0] = pair.there.read_some(asio::buffer(got, 1));
  EXPECT_EQ(bytes[0], 1u);
  EXPECT_EQ(got[0], 'x');
}

TEST(asio_completions, cancel_ends_an_operation_on_a_descriptor_that_does_not_block) {
  asio::io_context c;
  connection pair(c);
  pair.there.non_blocking(true);
  char byte = 0;
  failure why;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { why = e; });
  c.poll();
  c.poll(); // it waits for readiness by now
  pair.there.cancel();
  c.restart();
  c.run_for(5s);
  EXPECT_EQ(why, asio::error::operation_aborted);
}

TEST(asio_completions, the_end_of_a_connect_that_was_cancelled_is_not_that_of_the_next) {
  asio::io_context c;
  full_listener full(c);
  tcp::acceptor other(c, {asio::ip::address_v4::loopback(), 0});
  tcp::socket s(c);
  failure first;
  failure second;
  s.async_connect(full.acceptor.local_endpoint(), [&](failure e) { first = e; });
  c.run_for(20ms);
  s.cancel();
  c.restart();
  c.run_for(10s);
  EXPECT_EQ(first, aborted);
  s.async_connect(other.local_endpoint(), [&](failure e) { second = e; });
  c.restart();
  c.run_for(10s);
  EXPECT_EQ(second, asio::error::already_started);
}

// A descriptor that does not block is waited for, and then read.
TEST(asio_completions, a_socket_that_was_closed_reads_nothing_of_the_one_that_has_its_number) {
  asio::io_context c;
  int again = 0;
  for (int i = 0; i != 20; ++i) {
    connection old(c);
    int const number = old.there.native_handle();
    old.there.native_non_blocking(true);
    char byte = 0;
    failure why;
    old.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { why = e; });
    c.restart();
    c.poll();
    if (i % 2 == 0) asio::write(old.here, asio::buffer("o", 1)); // what it waits for is there
    old.there.close();
    connection fresh(c);
    again += number == fresh.here.native_handle() || number == fresh.there.native_handle();
    asio::write(fresh.here, asio::buffer("n", 1));
    asio::write(fresh.there, asio::buffer("n", 1));
    c.restart();
    c.run_for(10s);
    EXPECT_EQ(why, aborted);
    EXPECT_EQ(byte, 0);
    EXPECT_EQ(fresh.here.available() + fresh.there.available(), 2u);
  }
  EXPECT_GT(again, 0);
}

// As with a ring of Asio's own, which watches nothing. Its reactor refuses the second.
TEST(asio_completions, two_objects_have_one_number) {
  asio::io_context c;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  asio::posix::stream_descriptor to(c, ends[1]);
  {
    asio::posix::stream_descriptor first(c, ends[0]);
    asio::posix::stream_descriptor second(c, ends[0]);
    char got[2] = {};
    int right = 0;
    first.async_read_some(asio::buffer(&got[0], 1), [&](failure e, std::size_t n) { right += !e && n == 1; });
    second.async_read_some(asio::buffer(&got[1], 1),
                           [&](failure e, std::size_t n) { right += !e && n == 1; });
    c.poll();
    std::thread([&] { c.poll(); }).join(); // a ring is followed by epoll
    EXPECT_EQ(right, 0);
    asio::write(to, asio::buffer("xy", 2));
    c.restart();
    c.run_for(10s);
    EXPECT_EQ(right, 2);
    EXPECT_EQ(got[0] + got[1], 'x' + 'y');
    second.release();
  }
  pollfd p{.fd = ends[1], .events = 0, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 0), 1); // nothing has the other end any more
  EXPECT_EQ(p.revents, POLLERR);
}

TEST(asio_completions, a_connection_that_no_handler_was_given_ends_with_its_context) {
  asio::io_context c;
  tcp::socket client(c);
  {
    asio::io_context ends;
    tcp::acceptor acceptor(ends, {asio::ip::address_v4::loopback(), 0});
    acceptor.async_accept([](failure, tcp::socket) { ADD_FAILURE(); });
    connection other(ends);
    char byte = 0;
    other.there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
    ends.poll();
    client.connect(acceptor.local_endpoint());
    other.there.close(); // a ring is entered, and accepts
  }
  client.non_blocking(true);
  char byte = 0;
  failure why;
  client.read_some(asio::buffer(&byte, 1), why);
  EXPECT_NE(why, asio::error::would_block);
  EXPECT_TRUE(why);
}

TEST(asio_completions, an_object_is_used_again_after_one_was_closed_with_all_directions_pending) {
  asio::io_context c;
  int ended = 0;
  for (int i = 0; i != 50; ++i) {
    connection pair(c);
    char bytes[2];
    auto const end = [&](failure e, std::size_t) { ended += e == asio::error::operation_aborted; };
    pair.there.async_read_some(asio::buffer(bytes, 1), end);
    pair.there.async_read_some(asio::buffer(bytes + 1, 1), end);
    pair.there.async_wait(tcp::socket::wait_error, [&](failure e) { end(e, 0); });
    c.restart();
    if (i % 2 == 0) c.poll();
    pair.there.close();
    c.run();
  }
  EXPECT_EQ(ended, 150);
}

} // namespace
