// unio::asio: immediate executors (Asio 1.30 and later): where the handler of an operation that ends inside
// of the function that starts it is called.

#include "asio/asio.hpp"
#include "support/counting_executor.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#if !UNIO_TESTS_BOOST_ASIO && ASIO_VERSION >= 103000

namespace {

using namespace test;

struct asio_immediate : ::testing::Test {
  asio::io_context context;
  connection ends{context};
  char byte = 0;
  int calls = 0;
  bool called = false, called_inside = false;

  auto handler(failure const& expected = {}) {
    return asio::bind_immediate_executor(counting_executor{&calls},
                                         [this, expected](failure e, std::size_t = 0) {
                                           EXPECT_FALSE(called);
                                           EXPECT_EQ(e.value(), expected.value());
                                           called = true;
                                         });
  }
  /// Starts an operation inside of run().
  template <class Start> void start(Start s) {
    asio::post(context, [this, s] {
      s();
      called_inside = called;
    });
    context.run();
    EXPECT_TRUE(called);
  }
};

TEST_F(asio_immediate, is_called_by_a_read_that_need_not_wait) {
  ends.there.write_some(asio::buffer("x", 1));
  ends.here.wait(tcp::socket::wait_read);
  start([this] { ends.here.async_read_some(asio::buffer(&byte, 1), handler()); });
  EXPECT_TRUE(called_inside);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(asio_immediate, is_called_by_a_write_that_need_not_wait) {
  start([this] { ends.here.async_write_some(asio::buffer("x", 1), handler()); });
  EXPECT_TRUE(called_inside);
  EXPECT_EQ(calls, 1);
}

TEST_F(asio_immediate, is_not_called_by_a_read_that_waits) {
  asio::steady_timer timer(context, 20ms);
  timer.async_wait([this](failure) { ends.there.write_some(asio::buffer("x", 1)); });
  start([this] { ends.here.async_read_some(asio::buffer(&byte, 1), handler()); });
  EXPECT_FALSE(called_inside);
  EXPECT_EQ(calls, 0);
}

TEST_F(asio_immediate, is_called_on_a_socket_that_is_not_open) {
  tcp::socket closed(context);
  start([&] { closed.async_read_some(asio::buffer(&byte, 1), handler(asio::error::bad_descriptor)); });
  EXPECT_TRUE(called_inside);
  EXPECT_EQ(calls, 1);
}

TEST_F(asio_immediate, accepts_what_has_come) {
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  tcp::socket client(context), accepted(context);
  client.connect(acceptor.local_endpoint());
  acceptor.wait(tcp::acceptor::wait_read);
  start([&] { acceptor.async_accept(accepted, handler()); });
  EXPECT_TRUE(called_inside);
  EXPECT_EQ(calls, 1);
}

TEST_F(asio_immediate, without_one_the_handler_is_called_later) {
  start([this] {
    ends.here.async_write_some(asio::buffer("x", 1), [this](failure, std::size_t) { called = true; });
  });
  EXPECT_FALSE(called_inside);
}

} // namespace

#else

TEST(asio_immediate, is_tested_with_a_later_asio) { GTEST_SKIP() << "this Asio has no immediate executors"; }

#endif
