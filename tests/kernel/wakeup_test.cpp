// Waking a multiplexer from other threads: case 37; asio#320, #452: wake-ups that were lost.

#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_wakeup : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_wakeup);

// While it lives, something is pending, so that run() sleeps.
struct pending {
  explicit pending(unio::io_multiplexer& m) : timer(1h, &m) {}
  unio::timer_handle timer;
  started<unio::async_wait> wait{unio::async_wait(timer)};
};

ISOLATED_TEST(kernel_wakeup, of_a_million_posts_from_two_threads_loses_none) {
  constexpr int each = under_sanitizer ? 50'000 : 500'000;
  auto const m = made_multiplexer();
  {
    pending const p(*m);
    std::atomic<int> ran = 0;
    std::array<int, 2> last = {-1, -1};
    bool in_order = true;
    auto poster = [&](std::size_t who) {
      for (int i = 0; i < each; ++i) {
        ASSERT_TRUE(m->post([&, who, i] {
                       in_order = in_order && last[who] == i - 1;
                       last[who] = i;
                       ran.fetch_add(1, std::memory_order_relaxed);
                     }).has_value());
        // Now and then the other side has time to fall asleep.
        if (i % 5000 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i / 5000 % 7 * 50));
      }
    };
    std::thread first(poster, 0);
    std::thread second(poster, 1);
    // A lost wake-up sleeps until the process's watchdog comes.
    while (ran.load(std::memory_order_relaxed) < 2 * each) ASSERT_TRUE(m->run().has_value());
    first.join();
    second.join();
    EXPECT_TRUE(in_order) << "each thread's own stay in their order";
  }
  expect_nothing_in_flight(*m);
}

// One at a time, each of which has to wake a sleeper.
DRIVER_TEST(kernel_wakeup, of_a_sleeper_never_fails) {
  pending const p(m);
  constexpr int count = 20'000;
  std::atomic<int> ran = 0;
  std::thread poster([&] {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(m.post([&] { ++ran; }).has_value());
      while (ran <= i) std::this_thread::yield();
    }
  });
  while (ran < count) ASSERT_TRUE(m.run().has_value());
  poster.join();
}

DRIVER_TEST(kernel_wakeup, returns_from_run_without_anything_to_do) {
  pending const p(m);
  for (int i = 0; i < 200; ++i) {
    std::thread waker([&] {
      if (i % 2 == 0) std::this_thread::sleep_for(200us);
      m.wake();
    });
    auto const r = m.run();
    EXPECT_TRUE(r.has_value() && *r < 0);
    waker.join();
    (void)m.try_run(); // a wake() that came too late for that run() is for this one
  }
}

// Operations that several threads touch: started and cancelled from another thread while they complete (case
// 14).
DRIVER_TEST(kernel_wakeup, by_starting_and_cancelling_elsewhere_loses_nothing) {
  pending const p(m);
  connection c = local_connection(&m);
  std::array<char, 8> memory{};
  int bytes = 0;
  int sent = 0;
  for (int round = 0; round < 2000; ++round) {
    watched read{unio::atomic_async_read(c.socket, unio::mutable_buffer(memory))};
    std::thread other([&] {
      read.start();
      if (round % 3 != 0) read.cancel();
    });
    if (round % 2 == 0 || round % 3 == 0) {
      c.peer.write("x");
      ++sent;
    }
    bool const ended = drive(m, [&] { return read.ended(); });
    other.join();
    ASSERT_TRUE(ended) << round;
    ASSERT_TRUE(read.ended_once());
    ASSERT_EQ(read.values, 1);
    bytes += static_cast<int>(read.bytes);
  }
  char rest[4096];
  for (ssize_t n; (n = ::recv(c.socket.native_handle(), rest, sizeof rest, MSG_DONTWAIT)) > 0;)
    bytes += static_cast<int>(n);
  EXPECT_EQ(bytes, sent); // P3
}

// ---- loops that are not run(): what they are woken by is for the run() that follows

DRIVER_TEST(kernel_wakeup, during_a_blocking_call_is_for_the_next_run) {
  pending const p(m);
  for (int i = 0; i < 50; ++i) {
    connection c = local_connection(&m);
    std::thread waker([&] {
      m.wake();
      c.peer.write("x");
    });
    std::array<char, 4> memory{};
    EXPECT_TRUE(c.socket.read(unio::mutable_buffer(memory)).has_value());
    waker.join();
    EXPECT_LT(m.run().value(), 0); // it would sleep for an hour
  }
}

// What was delivered before is counted first. It would sleep for an hour.
void expect_next_run_is_woken(unio::io_multiplexer& m) {
  int n;
  do n = m.run().value();
  while (n > 0);
  EXPECT_LT(n, 0);
}

// From the receiver that closing notifies.
struct wakes {
  unio::io_multiplexer* multiplexer = nullptr;
  template <class Result> void set_value(Result&&) noexcept { multiplexer->wake(); }
  void set_done() noexcept {}
};

DRIVER_TEST(kernel_wakeup, during_a_close_is_for_the_next_run) {
  pending const p(m);
  connection c = local_connection(&m);
  std::array<char, 4> memory{};
  auto read = unio::connect(unio::async_read(c.socket, unio::mutable_buffer(memory)), wakes{&m});
  read.start();
  submit_all(m);
  EXPECT_TRUE(c.socket.close().has_value());
  expect_next_run_is_woken(m);
}

DRIVER_TEST(kernel_wakeup, during_the_destruction_of_an_operation_is_for_the_next_run) {
  pending const p(m);
  connection c = local_connection(&m);
  connection other = local_connection(&m);
  std::array<char, 4> memory{};
  // Its receiver is notified in the loop of the destruction.
  auto woken = unio::connect(unio::async_read(other.socket, unio::mutable_buffer(memory)), wakes{&m});
  woken.start();
  {
    std::array<char, 4> unused{};
    started read{unio::async_read(c.socket, unio::mutable_buffer(unused))};
    submit_all(m);
    other.peer.write("x");
  }
  while (!woken.finished()) (void)m.try_run();
  expect_next_run_is_woken(m);
}

} // namespace
