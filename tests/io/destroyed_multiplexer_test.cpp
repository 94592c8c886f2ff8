// multiplexer.hpp: handles and executors whose multiplexer, pool or thread has gone before them: an error,
// and not memory of what was.
//
// The drivers' remains (src/driver/remains.hpp) are what they find: no test here reads freed memory, so that
// sanitizers say nothing.

#include "support/descriptors.hpp"
#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class destroyed_multiplexer : public test::on_each_driver {
 protected:
  void destroy() { m_.reset(); }
};

UNIO_ON_BOTH_DRIVERS(destroyed_multiplexer);

TEST_P(destroyed_multiplexer, is_an_error_for_each_operation_of_its_handles) {
  auto ends = unio::socket_handle::pair().value();
  auto p = unio::pipe_handle::anonymous().value();
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  for (unio::handle* h : {static_cast<unio::handle*>(&ends.first), static_cast<unio::handle*>(&p.reader),
                          static_cast<unio::handle*>(&listener)})
    h->set_multiplexer(m_.get());
  std::array<char, 8> room{};
  ends.second.write("hi").value();
  EXPECT_EQ(ends.first.read(room).value().bytes(), 2U) << "while it is there";
  ends.second.write("lost").value();
  destroy();

  EXPECT_EQ(ends.first.read(room).error(), unio::error::multiplexer_destroyed);
  EXPECT_EQ(ends.first.try_read(room).error(), unio::error::multiplexer_destroyed);
  EXPECT_EQ(ends.first.write("x").error(), unio::error::multiplexer_destroyed);
  EXPECT_EQ(p.reader.read(room).error(), unio::error::multiplexer_destroyed);
  EXPECT_EQ(listener.accept().error(), unio::error::multiplexer_destroyed);
  EXPECT_EQ(unio::run([](unio::socket_handle& s, unio::mutable_buffer to) -> task<std::error_code> {
              co_return (co_await s.co_read(to)).error();
            }(ends.first, room)),
            unio::error::multiplexer_destroyed);

  ends.first.set_multiplexer(nullptr); // another one, and it is as before
  EXPECT_EQ(ends.first.read(room).value().bytes(), 4U);
}

// By a ring whose thread has ended, and which may not be entered any more.
TEST_P(destroyed_multiplexer, delivers_the_connections_that_were_accepted_before) {
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  listener.set_multiplexer(m_.get());
  watched accept{unio::async_accept_many(listener)};
  std::vector<unio::socket_handle> clients;
  std::thread([&] {
    accept.start();
    EXPECT_TRUE(m_->try_run_for(0ms).has_value());
    for (int i = 0; i != 2; ++i)
      clients.push_back(unio::socket_handle::connected_to(listener.local_endpoint().value()).value());
    EXPECT_EQ(m_->run(1).value(), 1);
  }).join();
  destroy();
  EXPECT_TRUE(accept.ended_once());
  EXPECT_EQ(accept.error, condition::canceled);
  accept.accepted.clear();
  EXPECT_TRUE(listener.close());
  char byte;
  for (unio::socket_handle& c : clients)
    EXPECT_NE(c.try_read_for(unio::mutable_buffer(&byte, 1), 10s).error(), condition::timed_out);
}

TEST_P(destroyed_multiplexer, lets_its_handles_be_closed_released_moved_and_destroyed) {
  auto ends = unio::socket_handle::pair().value();
  auto other = unio::socket_handle::pair().value();
  std::array<char, 8> room{};
  for (unio::socket_handle* h : {&ends.first, &ends.second, &other.first, &other.second})
    h->set_multiplexer(m_.get());
  EXPECT_EQ(ends.first.try_read(room).error(), unio::condition::would_block); // it knows the descriptors
  EXPECT_EQ(other.first.try_read(room).error(), unio::condition::would_block);
  destroy();

  int const closed = ends.first.native_handle();
  EXPECT_TRUE(ends.first.close());
  EXPECT_FALSE(is_open(closed));
  int const destroyed = ends.second.native_handle();
  {
    unio::socket_handle const moved = std::move(ends.second);
    EXPECT_TRUE(is_open(destroyed));
  }
  EXPECT_FALSE(is_open(destroyed));
  int const released = other.first.release();
  EXPECT_TRUE(is_open(released));
  auto again = unio::socket_handle::adopt(released);
  EXPECT_TRUE(again);
  EXPECT_EQ(unio::run([](unio::socket_handle s) -> task<std::error_code> {
              co_return (co_await std::move(s).co_close()).error();
            }(std::move(other.second))),
            unio::error::multiplexer_destroyed)
      << "it is not run; the descriptor is closed with the operation";
}

TEST_P(destroyed_multiplexer, ends_what_was_in_flight_before_and_what_is_started_later) {
  auto ends = unio::socket_handle::pair().value();
  ends.first.set_multiplexer(m_.get());
  std::array<char, 8> room{};
  test::watched early{unio::async_read(ends.first, room)};
  test::watched late{unio::async_read(ends.first, room)};
  early.start();
  EXPECT_FALSE(early.finished());
  destroy();
  test::expect_ended_once(early);
  EXPECT_EQ(early.error, unio::condition::canceled);
  early.cancel(); // of what has ended: nothing
  late.start();
  test::expect_ended_once(late);
  EXPECT_EQ(late.error, unio::error::multiplexer_destroyed);
}

TEST_P(destroyed_multiplexer, tells_work_that_it_does_not_run) {
  io_multiplexer& m = *m_;
  auto const executor = m.executor();
  destroy();
  std::optional<bool> ran;
  struct told : unio::work {
    explicit told(std::optional<bool>& t) noexcept
        : work([](unio::work& w, bool run) noexcept { *static_cast<told&>(w).to = run; }), to(&t) {}
    std::optional<bool>* to;
  } w(ran);
  executor.post(w);
  EXPECT_EQ(ran, false);
  EXPECT_EQ(m.run().error(), unio::error::multiplexer_destroyed);
}

TEST_P(destroyed_multiplexer, is_found_after_some_others_have_come_and_gone) {
  auto ends = unio::socket_handle::pair().value();
  ends.first.set_multiplexer(m_.get());
  destroy();
  std::array<char, 8> room{};
  for (int i = 0; i != 20; ++i) {
    auto const another = io_multiplexer::best_available(1).value();
    EXPECT_EQ(ends.first.read(room).error(), unio::error::multiplexer_destroyed);
  }
}

TEST_P(destroyed_multiplexer, leaves_memory_that_later_ones_use_again) {
  void* const where = m_.get();
  destroy();
  int made = 0;
  while (made != 2000) {
    ++made;
    if (io_multiplexer::best_available(1).value().get() == where) break;
  }
  EXPECT_GE(made, 64);
  EXPECT_LT(made, 2000);
}

TEST(destroyed_thread_pool, is_an_error_for_its_handles_and_its_executors) {
  auto ends = unio::socket_handle::pair().value();
  auto pool = std::make_unique<unio::thread_pool>(2);
  ends.first.set_multiplexer(&pool->multiplexer());
  auto const executor = pool->executor();
  pool.reset();
  std::array<char, 8> room{};
  EXPECT_EQ(ends.first.read(room).error(), unio::error::multiplexer_destroyed);
  bool began = false;
  unio::async_run(executor, [](bool& b) -> task<> {
    b = true;
    co_return;
  }(began));
  EXPECT_FALSE(began) << "the task is destroyed";
  EXPECT_TRUE(ends.first.close());
}

TEST(destroyed_multiplexer_of_a_thread, is_an_error_for_handles_that_outlive_the_thread) {
  auto ends = unio::socket_handle::pair().value();
  std::array<char, 8> room{};
  std::thread([&] {
    ends.first.set_multiplexer(&unio::this_thread::multiplexer());
    EXPECT_EQ(ends.first.try_read(room).error(), unio::condition::would_block);
  }).join();
  EXPECT_EQ(ends.first.read(room).error(), unio::error::multiplexer_destroyed);
  EXPECT_TRUE(ends.first.close());
}

} // namespace
