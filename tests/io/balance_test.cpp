// multiplexer.hpp, run.hpp: where what is new begins, if several threads run a multiplexer: on the one that
// has least to do.
//
// That nothing waits for ever, in whatever order the threads go on, is in threads/engines_test.cpp.

#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <latch>

namespace {

using namespace test;

/// How many have begun on each thread.
class places {
 public:
  void note() {
    std::lock_guard const lock(mutex_);
    ++on_[std::this_thread::get_id()];
    ++all_;
  }
  void wait_for(int n) const {
    while (all_ < n) std::this_thread::sleep_for(100us);
  }
  [[nodiscard]] int on(std::thread::id id) {
    std::lock_guard const lock(mutex_);
    return on_[id];
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, int> on_;
  std::atomic<int> all_ = 0;
};

// A thread that runs a multiplexer, with so many operations in flight, until it is told to end.
class busy_runner {
 public:
  explicit busy_runner(io_multiplexer& m, int in_flight = 1)
      : end_(unio::event_handle::create().value()), thread_([&m, in_flight, this] { body(m, in_flight); }) {
    ready_.wait();
  }
  busy_runner(busy_runner const&) = delete;
  busy_runner& operator=(busy_runner const&) = delete;
  ~busy_runner() {
    EXPECT_TRUE(end_.signal().has_value());
    thread_.join();
  }
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

 private:
  void body(io_multiplexer& m, int in_flight) {
    m.join_in();
    end_.set_multiplexer(&m);
    started const end{unio::async_wait_event(end_)};
    unio::timer_handle t(1h, &m);
    std::deque<started<unio::async_wait>> keep;
    for (int i = 1; i < in_flight; ++i) keep.emplace_back(unio::async_wait(t));
    ready_.count_down();
    while (!end.ended()) ASSERT_TRUE(m.run().has_value());
  }
  std::latch ready_{1};
  unio::event_handle end_;
  std::thread thread_;
};

class balance : public test::on_each_driver {
 protected:
  watchdog watchdog_;
  balance() : on_each_driver(2) {}
};
UNIO_ON_BOTH_DRIVERS(balance);

unio::task<> session(unio::socket_handle s, places& p) {
  p.note();
  char room[16];
  (void)co_await s.co_read(unio::mutable_buffer(room));
}

// Keeps its thread until it is told to end.
class kept_busy {
 public:
  // In a handler on the thread that takes it.
  explicit kept_busy(io_multiplexer& m) {
    EXPECT_TRUE(m.post([this] {
      where_ = std::this_thread::get_id();
      begun_.count_down();
      while (!over_) std::this_thread::yield();
      ended_.count_down();
    }));
    begun_.wait();
  }
  ~kept_busy() {
    over_ = true;
    ended_.wait();
  }
  [[nodiscard]] std::thread::id where() const { return where_; }

 private:
  std::thread::id where_;
  std::latch begun_{1}, ended_{1};
  std::atomic<bool> over_ = false;
};

// Whether each of two threads has begun at least an eighth.
bool are_served_by_both(io_multiplexer& m) {
  constexpr int waves = 8, of_a_wave = 8;
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto const at = listening.local_endpoint().value();
  listening.set_multiplexer(&m);
  places p;
  std::vector<unio::socket_handle> clients;
  bool both = false;
  {
    busy_runner first(m), second(m);
    // All are accepted by one of them.
    unio::async_run(m, [](unio::listening_socket_handle& l, io_multiplexer& m, places& in) -> unio::task<> {
      for (int i = 0; i != waves * of_a_wave; ++i)
        unio::async_run(m, session((co_await l.co_accept()).value(), in));
    }(listening, m, p));
    for (int wave = 1; wave <= waves; ++wave) {
      for (int i = 0; i != of_a_wave; ++i) {
        clients.push_back(unio::socket_handle::connected_to(at).value());
      }
      p.wait_for(wave * of_a_wave);
    }
    both = p.on(first.id()) >= of_a_wave && p.on(second.id()) >= of_a_wave;
    clients.clear();
  }
  while (m.run().value() != 0) continue;
  return both;
}

// A half each, unless a thread does not get a processor for long: then another time.
TEST_P(balance, accepted_connections_are_served_by_all_threads) {
  int times = 1;
  while (!are_served_by_both(*m_) && times != 10) ++times;
  EXPECT_NE(times, 10);
}

TEST_P(balance, a_thread_with_fewer_operations_begins_what_is_spawned_from_outside) {
  places p;
  busy_runner more(*m_, 1000), fewer(*m_);
  for (int i = 0; i != 100; ++i) {
    EXPECT_TRUE(m_->spawn([&] { p.note(); }));
    p.wait_for(i + 1);
  }
  EXPECT_GE(p.on(fewer.id()), 50); // all, unless it does not get a processor for long
}

TEST_P(balance, what_is_spawned_begins_elsewhere_while_the_thread_with_least_to_do_computes) {
  places p;
  busy_runner first(*m_, 2), second(*m_, 2);
  auto const check = [&](int before) {
    kept_busy const k(*m_);
    for (int i = 0; i != 64; ++i) EXPECT_TRUE(m_->spawn([&] { p.note(); }));
    p.wait_for(before + 64); // though it is still kept
    return k.where();
  };
  auto const kept = check(0);
  EXPECT_EQ(p.on(kept), 0);
  (void)check(64); // and again, once it has come round
}

TEST_P(balance, what_a_thread_spawns_and_does_not_come_to_begins_elsewhere) {
  places p;
  std::atomic<bool> has_spawned = false;
  std::thread::id kept;
  busy_runner first(*m_, 2), second(*m_, 2);
  EXPECT_TRUE(m_->post([&] {
    kept = std::this_thread::get_id();
    for (int i = 0; i != 64; ++i) EXPECT_TRUE(m_->spawn([&] { p.note(); }));
    p.wait_for(64);
    has_spawned = true;
  }));
  while (!has_spawned) std::this_thread::sleep_for(100us);
  EXPECT_EQ(p.on(kept), 0);
}

TEST_P(balance, a_thread_that_has_joined_and_does_not_run_begins_nothing) {
  m_->join_in();
  places p;
  busy_runner r(*m_, 100); // this thread has less to do
  unio::timer_handle t(1h, m_.get());
  started const keep{unio::async_wait(t)};
  for (int i = 0; i != 64; ++i) EXPECT_TRUE(m_->spawn([&] { p.note(); }));
  p.wait_for(64);
  EXPECT_EQ(p.on(r.id()), 64);
}

TEST_P(balance, a_thread_that_joins_begins_what_is_new) {
  places p;
  busy_runner first(*m_, 1000);
  EXPECT_TRUE(m_->spawn([&] { p.note(); }));
  p.wait_for(1);
  EXPECT_EQ(p.on(first.id()), 1);
  busy_runner second(*m_);
  for (int i = 0; i != 100; ++i) {
    EXPECT_TRUE(m_->spawn([&] { p.note(); }));
    p.wait_for(i + 2);
  }
  EXPECT_GE(p.on(second.id()), 50);
}

TEST_P(balance, what_is_spawned_can_be_taken_back_until_it_begins) {
  m_->join_in();
  unio::timer_handle t(1h, m_.get());
  started const keep{unio::async_wait(t)};
  struct item : unio::work {
    item() : work([](work& self, bool run) noexcept { static_cast<item&>(self).ran += run ? 1 : 100; }) {}
    int ran = 0;
  } taken_back, runs;
  m_->spawn(taken_back);
  m_->spawn(runs);
  EXPECT_TRUE(m_->withdraw(taken_back));
  EXPECT_GT(m_->run().value(), 0);
  EXPECT_FALSE(m_->withdraw(runs));
  EXPECT_EQ(taken_back.ran, 0);
  EXPECT_EQ(runs.ran, 1);
}

TEST_P(balance, what_is_spawned_and_has_not_begun_is_dropped_with_the_multiplexer) {
  m_->join_in();
  std::atomic<int> destroyed = 0;
  {
    unio::timer_handle t(1h, m_.get());
    started const keep{unio::async_wait(t)};
    for (int i = 0; i != 10; ++i)
      unio::async_run(*m_, [](test::counts_destruction) -> unio::task<> {
        co_return;
      }(test::counts_destruction(destroyed)));
  }
  m_.reset();
  EXPECT_EQ(destroyed, 10);
}

TEST_P(balance, each_is_run_once_though_threads_come_and_go) {
  constexpr int spawners = 2, each = 500;
  places p;
  busy_runner stays(*m_);
  {
    std::vector<std::jthread> outside;
    for (int i = 0; i != spawners; ++i)
      outside.emplace_back([&] {
        for (int k = 0; k != each; ++k) EXPECT_TRUE(m_->spawn([&] { p.note(); }));
      });
    for (int i = 0; i != 10; ++i) busy_runner(*m_, i);
  }
  p.wait_for(spawners * each);
}

} // namespace
