// multiplexer.hpp: a thread of several that run one multiplexer does something else for long. What it has in
// flight goes on elsewhere.

#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <filesystem>
#include <fstream>
#include <latch>

namespace {

using namespace test;

class away : public test::on_each_driver {
 protected:
  watchdog watchdog_{100s};
  away() : on_each_driver(2) {}
  void SetUp() override {
    on_each_driver::SetUp();
    if (m_ == nullptr) return;
    keep_.emplace(1h, m_.get());
    kept_.emplace(unio::connect(unio::atomic_async_wait(*keep_), calls{[] {}}));
    kept_->start();
    std::latch both(3);
    for (int i = 0; i != 2; ++i)
      threads_.emplace_back([this, &both] {
        (void)m_->try_run();
        both.count_down();
        while (!stop_) (void)m_->run();
      });
    both.arrive_and_wait();
  }
  void TearDown() override {
    if (m_ == nullptr) return;
    while (stays_ && !stays_->finished()) std::this_thread::yield();
    stop_ = true;
    kept_->cancel();
    for (auto& t : threads_) t.join();
  }
  // Runs `f` on a thread of the multiplexer, which stays in there until `may_go_on`.
  template <class F> void in_a_thread_that_stays(F f) {
    std::latch done(1);
    ASSERT_TRUE(m_->post([&] {
      f();
      done.count_down();
      may_go_on_.wait();
    }));
    done.wait();
  }

  // Runs `f` on a thread of the multiplexer, which then sleeps, so that its driver has all that `f` starts,
  // and is away after that until `may_go_on`.
  template <class F> std::thread::id in_a_thread_that_will_stay(F f) {
    std::thread::id busy;
    std::atomic<bool> is_away = false;
    later_.emplace(1ms, m_.get());
    stays_.emplace(unio::connect(unio::atomic_async_wait(*later_), calls{[&] {
                                   busy = std::this_thread::get_id();
                                   is_away = true;
                                   is_away.notify_one();
                                   may_go_on_.wait();
                                 }}));
    EXPECT_TRUE(m_->post([&] {
      f();
      stays_->start();
    }));
    is_away.wait(false);
    return busy;
  }

  std::optional<unio::timer_handle> keep_;
  std::optional<unio::io_operation_connection<unio::atomic_async_wait, calls>> kept_;
  std::deque<std::thread> threads_;
  std::atomic<bool> stop_ = false;
  std::latch may_go_on_{1};
  std::optional<unio::timer_handle> later_;
  std::optional<unio::io_operation_connection<unio::atomic_async_wait, calls>> stays_;
};
UNIO_ON_BOTH_DRIVERS(away);

void put_one(int fd, char c = 'x') { ASSERT_EQ(::write(fd, &c, 1), 1); }

struct reading {
  reading(unio::pipe_handle& p)
      : op(unio::connect(unio::atomic_async_read(p, unio::mutable_buffer(memory)), calls{[this] {
                           where = std::this_thread::get_id();
                           done = true;
                           done.notify_one();
                         }})) {}
  char memory[4];
  std::thread::id where;
  std::atomic<bool> done = false;
  unio::io_operation_connection<unio::atomic_async_read, calls> op;
};

TEST_P(away, what_a_busy_thread_has_in_flight_goes_on_elsewhere) {
  auto p = test::pipe_on(m_.get());
  reading r(p.reader);
  std::thread::id busy;
  in_a_thread_that_stays([&] {
    busy = std::this_thread::get_id();
    r.op.start();
  });
  put_one(p.writer.native_handle());
  r.done.wait(false);
  EXPECT_NE(r.where, busy);
  may_go_on_.count_down();
  while (!r.op.finished()) std::this_thread::yield();
  EXPECT_EQ(r.op.result().value().bytes(), 1U);
}

TEST_P(away, what_the_kernel_has_is_taken_as_well_and_no_byte_is_lost) {
  for (int round = 0; round != 20; ++round) {
    auto p = test::pipe_on(m_.get());
    std::optional<reading> r(std::in_place, p.reader);
    std::latch started(1), left(1);
    std::atomic<bool> go_on = false;
    // Started in one turn, so that the ring has it, and then its thread is busy.
    ASSERT_TRUE(m_->post([&] {
      r->op.start();
      (void)m_->post([&] { // by the same thread, unless another one is idle
        (void)m_->post([&] {
          started.count_down();
          go_on.wait(false);
          left.count_down();
        });
      });
    }));
    started.wait();
    put_one(p.writer.native_handle(), 'a');
    r->done.wait(false);
    while (!r->op.finished()) std::this_thread::yield();
    EXPECT_EQ(r->op.result().value().bytes(), 1U);
    EXPECT_EQ(r->memory[0], 'a');
    r.reset(); // its memory is gone before the thread comes back
    put_one(p.writer.native_handle(), 'b');
    go_on = true;
    go_on.notify_one();
    reading next(p.reader);
    next.op.start();
    next.done.wait(false);
    while (!next.op.finished()) std::this_thread::yield();
    EXPECT_EQ(next.memory[0], 'b');
    left.wait();
  }
  may_go_on_.count_down();
}

TEST_P(away, a_write_that_waits_for_room_goes_on_elsewhere_and_writes_each_byte_once) {
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m_.get());
  // Full, with a pattern that the write continues.
  std::size_t sent = 0;
  auto const next = [&](std::size_t i) { return static_cast<char>('a' + i % 23); };
  for (;;) {
    std::vector<char> some(997);
    for (std::size_t i = 0; i != some.size(); ++i) some[i] = next(sent + i);
    ssize_t const n = ::send(pair.first.native_handle(), some.data(), some.size(), MSG_DONTWAIT);
    if (n < 0) break;
    sent += static_cast<std::size_t>(n);
  }
  std::vector<char> rest(5000);
  for (std::size_t i = 0; i != rest.size(); ++i) rest[i] = next(sent + i);
  std::atomic<bool> done = false;
  std::thread::id busy, where;
  auto op = unio::connect(unio::atomic_async_write(pair.first, unio::const_buffer(rest.data(), rest.size())),
                          calls{[&] {
                            where = std::this_thread::get_id();
                            done = true;
                            done.notify_one();
                          }});
  in_a_thread_that_stays([&] {
    busy = std::this_thread::get_id();
    op.start();
  });
  std::this_thread::sleep_for(3ms);
  std::size_t received = 0;
  bool in_order = true;
  char memory[4096];
  auto const drain = [&] {
    for (ssize_t n; (n = ::recv(pair.second.native_handle(), memory, sizeof memory, MSG_DONTWAIT)) > 0;)
      for (ssize_t i = 0; i != n; ++i, ++received) in_order = in_order && memory[i] == next(received);
  };
  while (!done) drain();
  may_go_on_.count_down();
  while (!op.finished()) std::this_thread::yield();
  drain();
  EXPECT_NE(where, busy);
  EXPECT_TRUE(in_order);
  EXPECT_EQ(received, sent + op.result().value().bytes());
}

TEST_P(away, a_coroutine_whose_thread_is_busy_is_resumed_by_another) {
  auto p = test::pipe_on(m_.get());
  std::atomic<bool> done = false;
  std::thread::id busy, where;
  in_a_thread_that_stays([&] {
    busy = std::this_thread::get_id();
    auto const body = [](unio::pipe_handle& reader, std::thread::id& at,
                         std::atomic<bool>& is_done) -> unio::task<void> {
      char memory[4];
      (void)co_await reader.co_read(unio::mutable_buffer(memory));
      at = std::this_thread::get_id();
      is_done = true;
      is_done.notify_one();
    };
    unio::async_run(m_->executor(), body(p.reader, where, done));
  });
  std::this_thread::sleep_for(2ms);
  put_one(p.writer.native_handle());
  done.wait(false);
  EXPECT_NE(where, busy);
  may_go_on_.count_down();
}

TEST_P(away, a_timer_of_a_busy_thread_fires_elsewhere) {
  unio::timer_handle t(5ms, m_.get());
  std::atomic<bool> done = false;
  auto op = unio::connect(unio::atomic_async_wait(t), calls{[&] {
                            done = true;
                            done.notify_one();
                          }});
  in_a_thread_that_stays([&] { op.start(); });
  done.wait(false);
  while (!op.finished()) std::this_thread::yield();
  EXPECT_TRUE(op.result().has_value());
  may_go_on_.count_down();
}

// In how many sets of epoll the process has a descriptor.
int epoll_sets_with(int fd) {
  int sets = 0;
  std::string const wanted = "tfd: ";
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(wanted) && std::stoi(line.substr(wanted.size())) == fd) ++sets;
  }
  return sets;
}

TEST_P(away, a_thread_is_not_woken_any_more_for_what_was_taken_from_it) {
  if (GetParam() != "epoll") GTEST_SKIP() << "a ring forgets what was taken, once its thread enters it";
  watchdog const w;
  auto p = test::pipe_on(m_.get());
  reading r(p.reader);
  std::thread::id const busy = in_a_thread_that_will_stay([&] { r.op.start(); });
  EXPECT_EQ(epoll_sets_with(p.reader.native_handle()), 1);
  put_one(p.writer.native_handle());
  r.done.wait(false);
  EXPECT_NE(r.where, busy);
  EXPECT_EQ(epoll_sets_with(p.reader.native_handle()), 0);
  may_go_on_.count_down();
  while (!r.op.finished()) std::this_thread::yield();
}

/// One operation, and what thread its receiver ran on.
template <class Operation> struct going_on {
  struct notes {
    going_on* to;
    template <class Result> void set_value(Result&& r) noexcept { to->error = r.error(); }
    void set_done() noexcept {
      to->where = std::this_thread::get_id();
      to->done = true;
      to->done.notify_one();
    }
  };
  template <class... Arguments>
  explicit going_on(Arguments&&... arguments)
      : op(unio::connect(Operation(std::forward<Arguments>(arguments)...), notes{this})) {}
  void wait() {
    done.wait(false);
    while (!op.finished()) std::this_thread::yield();
  }
  std::error_code error;
  std::thread::id where;
  std::atomic<bool> done = false;
  unio::io_operation_connection<Operation, notes> op;
};

TEST_P(away, a_connection_is_accepted_elsewhere_and_the_next_by_the_one_that_comes_back) {
  auto const listener = std::make_unique<unio::listening_socket_handle>(
      unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value());
  listener->set_multiplexer(m_.get());
  going_on<unio::atomic_async_accept> first(*listener);
  std::thread::id const busy = in_a_thread_that_will_stay([&] { first.op.start(); });
  auto const here = unio::socket_handle::connected_to(listener->local_endpoint().value());
  first.wait();
  EXPECT_NE(first.where, busy);
  EXPECT_FALSE(first.error);
  may_go_on_.count_down();
  for (int i = 0; i != 3; ++i) {
    going_on<unio::atomic_async_accept> next(*listener);
    next.op.start();
    auto const there = unio::socket_handle::connected_to(listener->local_endpoint().value());
    next.wait();
    EXPECT_FALSE(next.error);
  }
}

TEST_P(away, a_datagram_is_received_elsewhere_once) {
  auto to = unio::datagram_handle::bind(unio::endpoint::ipv4_loopback(0)).value();
  auto from = unio::datagram_handle::bind(unio::endpoint::ipv4_loopback(0)).value();
  to.set_multiplexer(m_.get());
  auto const send = [&](std::string const& text) {
    ASSERT_TRUE(from.send_to({.to = to.local_endpoint().value(), .from = {}, .interface = {}},
                             unio::const_buffer(text.data(), text.size()))
                    .has_value());
  };
  char memory[8];
  unio::datagram_info info;
  std::optional<going_on<unio::atomic_async_receive_from>> r(std::in_place, to, unio::mutable_buffer(memory),
                                                             info);
  std::thread::id const busy = in_a_thread_that_will_stay([&] { r->op.start(); });
  send("one");
  r->wait();
  EXPECT_NE(r->where, busy);
  EXPECT_EQ(r->op.result().value().bytes(), 3U);
  EXPECT_EQ(info.from, from.local_endpoint().value());
  r.reset(); // its memory is gone before the thread comes back
  send("second");
  may_go_on_.count_down();
  r.emplace(to, unio::mutable_buffer(memory), info);
  r->op.start();
  r->wait();
  EXPECT_EQ(std::string(memory, r->op.result().value().bytes()), "second");
}

TEST_P(away, readiness_is_found_elsewhere) {
  auto p = test::pipe_on(m_.get());
  going_on<unio::atomic_async_poll> ready(p.reader, unio::readiness::readable);
  std::thread::id const busy = in_a_thread_that_will_stay([&] { ready.op.start(); });
  put_one(p.writer.native_handle());
  ready.wait();
  EXPECT_NE(ready.where, busy);
  may_go_on_.count_down();
}

// Where others are ready, what a receiver starts is put off until they have run: the one that stays away is
// among them.
TEST_P(away, what_was_put_off_goes_on_elsewhere) {
  constexpr std::size_t connections = 8;
  struct connection {
    explicit connection(io_multiplexer& m) : ends(unio::socket_handle::pair().value()) {
      ends.first.set_multiplexer(&m);
    }
    unio::socket_pair ends;
    char memory[1];
    std::optional<going_on<unio::atomic_async_read>> next;
    std::optional<unio::io_operation_connection<unio::atomic_async_read, calls>> first;
  };
  std::deque<connection> all;
  std::atomic<std::size_t> begun = 0;
  for (std::size_t i = 0; i != connections; ++i) {
    connection& c = all.emplace_back(*m_);
    c.next.emplace(c.ends.first, unio::mutable_buffer(c.memory));
    c.first.emplace(
        unio::connect(unio::atomic_async_read(c.ends.first, unio::mutable_buffer(c.memory)), calls{[&] {
                        c.next->op.start();
                        if (begun.fetch_add(1) + 1 == connections / 2) may_go_on_.wait();
                      }}));
  }
  std::latch started(1);
  ASSERT_TRUE(m_->post([&] {
    for (connection& c : all) c.first->start();
    for (connection& c : all) put_one(c.ends.second.native_handle());
    started.count_down();
  }));
  started.wait();
  while (begun != connections) std::this_thread::yield();
  for (connection& c : all) put_one(c.ends.second.native_handle());
  for (connection& c : all) c.next->wait();
  may_go_on_.count_down();
  for (connection& c : all)
    while (!c.first->finished()) std::this_thread::yield();
}

TEST_P(away, results_behind_a_long_receiver_are_delivered_elsewhere) {
  std::vector<unio::anonymous_pipe> pipes;
  for (int i = 0; i != 8; ++i) pipes.push_back(test::pipe_on(m_.get()));
  std::atomic<int> done = 0;
  std::atomic<bool> first = true;
  std::deque<unio::io_operation_connection<unio::atomic_async_read, calls>> ops;
  char memory[8][1];
  for (std::size_t i = 0; i != pipes.size(); ++i)
    ops.push_back(
        unio::connect(unio::atomic_async_read(pipes[i].reader, unio::mutable_buffer(memory[i])), calls{[&] {
                        done.fetch_add(1);
                        if (first.exchange(false)) may_go_on_.wait();
                      }}));
  std::latch started(1);
  ASSERT_TRUE(m_->post([&] {
    for (auto& op : ops) op.start();
    for (auto& p : pipes) put_one(p.writer.native_handle());
    started.count_down();
  }));
  started.wait();
  test::until(done, 8);
  may_go_on_.count_down();
  for (auto& op : ops)
    while (!op.finished()) std::this_thread::yield();
}

TEST_P(away, what_was_taken_is_cancelled_and_closed_by_the_thread_that_started_it) {
  for (int round = 0; round != 50; ++round) {
    auto p = test::pipe_on(m_.get());
    auto q = test::pipe_on(m_.get());
    std::optional<reading> a(std::in_place, p.reader), b(std::in_place, q.reader);
    std::latch done(1);
    ASSERT_TRUE(m_->post([&] {
      a->op.start();
      b->op.start();
      std::this_thread::sleep_for(std::chrono::microseconds(round * 100));
      put_one(q.writer.native_handle());
      a->op.cancel();
      EXPECT_TRUE(q.reader.close().has_value());
      while (!a->done || !b->done) {
        (void)a->op.poll();
        std::this_thread::yield();
      }
      done.count_down();
    }));
    done.wait();
    while (!a->op.finished() || !b->op.finished()) std::this_thread::yield();
  }
  may_go_on_.count_down();
}

} // namespace
