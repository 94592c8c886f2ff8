// multiplexer.hpp: a multiplexer that any number of threads run. Who runs an operation that was started by a
// thread that does not; threads that come and go; what a thread leaves that ends.
//
// Posting, waking and what run() returns are in multiplexer_test.cpp.

#include "support/calls.hpp"
#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <poll.h>

#include <latch>
#include <sstream>

namespace {

using namespace test;
using clock_type = std::chrono::steady_clock;

class several : public ::testing::TestWithParam<std::string> {
 protected:
  watchdog watchdog_{100s};
  void SetUp() override {
    auto made = test::make_multiplexer(GetParam().c_str(), 2);
    if (!made.has_value()) GTEST_SKIP() << made.error().message();
    m_ = std::move(*made);
  }
  [[nodiscard]] unio::anonymous_pipe make_pipe() const { return test::pipe_on(m_.get()); }
  unio::timer_handle timer(unio::deadline d) { return unio::timer_handle(d, m_.get()); }
  void run_to_the_end() {
    while (m_->run().value() != 0) continue;
  }
  // Engines are made with the driver that the environment names then.
  test::environment_variable const driver_{"UNIO_DRIVER", GetParam().c_str()};
  std::unique_ptr<io_multiplexer> m_;
};
UNIO_ON_BOTH_DRIVERS(several);

void put(int fd, std::size_t bytes = 1) {
  std::string const text(bytes, 'x');
  ASSERT_EQ(::write(fd, text.data(), bytes), static_cast<ssize_t>(bytes));
}

// A thread that runs a multiplexer, with something in flight, until it is told to end.
class runner {
 public:
  explicit runner(io_multiplexer& m) : m_(m), thread_([this] { body(); }) { ready_.wait(); }
  runner(runner const&) = delete;
  runner& operator=(runner const&) = delete;
  ~runner() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    stop_ = true;
    while (!over_) {
      m_.wake();
      std::this_thread::sleep_for(100us);
    }
    thread_.join();
  }
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

 private:
  void body() {
    EXPECT_TRUE(m_.try_run().has_value());
    unio::timer_handle t(1h, &m_);
    started keep{unio::async_wait(t)};
    ready_.count_down();
    while (!stop_) ASSERT_TRUE(m_.run().has_value());
    over_ = true;
  }
  io_multiplexer& m_;
  std::latch ready_{1};
  std::atomic<bool> stop_ = false, over_ = false;
  std::thread thread_;
};

// ---- who runs it ------------------------------------------------------------------------------------------

TEST_P(several, an_operation_started_before_any_thread_runs_is_run_by_the_first_that_does) {
  auto p = make_pipe();
  char memory[4];
  std::thread::id where;
  auto op = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)),
                          calls{[&] { where = std::this_thread::get_id(); }});
  op.start();
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::none_yet);
  put(p.writer.native_handle(), 2);
  std::thread first([&] { run_to_the_end(); });
  auto const id = first.get_id();
  first.join();
  EXPECT_EQ(where, id);
  EXPECT_EQ(op.result().value().bytes(), 2U);
}

TEST_P(several, an_operation_of_a_thread_that_does_not_run_it_wakes_one_that_sleeps) {
  runner r(*m_);
  for (int round = 0; round != 100; ++round) {
    if (round % 10 == 0) std::this_thread::sleep_for(1ms); // so that it sleeps
    auto p = make_pipe();
    char memory[4];
    std::atomic<bool> done = false;
    std::thread::id where;
    auto op = unio::connect(unio::atomic_async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
                              where = std::this_thread::get_id();
                              done = true;
                              done.notify_one();
                            }});
    EXPECT_EQ(m_->run_by(), io_multiplexer::runner::another_thread);
    op.start();
    put(p.writer.native_handle());
    done.wait(false);
    while (!op.finished()) std::this_thread::yield();
    EXPECT_EQ(where, r.id());
  }
}

TEST_P(several, an_operation_started_while_the_only_runner_computes_is_run_after_that) {
  runner r(*m_);
  std::latch is_busy(1), may_go_on(1);
  ASSERT_TRUE(m_->post([&] {
    is_busy.count_down();
    may_go_on.wait();
  }));
  is_busy.wait();
  std::atomic<bool> done = false;
  unio::timer_handle t = timer(1ms);
  auto op = unio::connect(unio::atomic_async_wait(t), calls{[&] {
                            done = true;
                            done.notify_one();
                          }});
  op.start();
  EXPECT_FALSE(op.finished());
  may_go_on.count_down();
  done.wait(false);
  while (!op.finished()) std::this_thread::yield();
}

TEST_P(several, of_operations_that_many_threads_start_each_ends_once) {
  constexpr int starters = 3, each = 300;
  std::atomic<int> done = 0;
  {
    runner a(*m_), b(*m_);
    test::threads outside(starters, [&] {
      std::vector<unio::anonymous_pipe> pipes;
      std::deque<unio::io_operation_connection<unio::atomic_async_read, calls>> ops;
      char memory[1];
      for (int i = 0; i != 20; ++i) pipes.push_back(make_pipe());
      std::atomic<int> mine = 0;
      for (int i = 0; i != each; ++i) {
        auto& p = pipes[static_cast<std::size_t>(i) % pipes.size()];
        ops.push_back(
            unio::connect(unio::atomic_async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
                            done.fetch_add(1);
                            mine.fetch_add(1);
                          }}));
        ops.back().start();
        put(p.writer.native_handle());
        if (i % 20 == 19) test::until(mine, i + 1);
      }
      for (auto& op : ops)
        while (!op.finished()) std::this_thread::yield();
    });
    outside.join();
  }
  EXPECT_EQ(done.load(), starters * each);
}

TEST_P(several, an_awaited_read_of_a_thread_that_does_not_run_it_resumes_on_a_thread_that_does) {
  auto p = make_pipe();
  runner r(*m_);
  std::thread::id where;
  std::thread writer([&] {
    std::this_thread::sleep_for(2ms);
    put(p.writer.native_handle(), 3);
  });
  auto const body = [](unio::pipe_handle& reader, std::thread::id& at) -> unio::task<std::size_t> {
    char memory[8];
    auto const n = (co_await reader.co_read(unio::mutable_buffer(memory))).value().bytes();
    at = std::this_thread::get_id();
    co_return n;
  };
  EXPECT_EQ(unio::sync_wait(m_->executor(), body(p.reader, where)), 3U);
  writer.join();
  EXPECT_EQ(where, r.id());
}

TEST_P(several, polling_runs_what_no_thread_runs_yet) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  op.start();
  EXPECT_EQ(op.poll(), unio::io_status::pending);
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::this_thread);
  put(p.writer.native_handle());
  while (op.poll() == unio::io_status::pending) continue;
  test::expect_ended_once(op);
}

TEST_P(several, a_blocking_call_makes_its_thread_one_that_runs_it) {
  auto p = make_pipe();
  put(p.writer.native_handle(), 2);
  char memory[4];
  EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory)).value().bytes(), 2U);
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::this_thread);
}

TEST_P(several, what_no_thread_runs_yet_counts_as_pending) {
  unio::timer_handle t = timer(1h);
  watched op{unio::atomic_async_wait(t)};
  op.start();
  std::thread([&] {
    EXPECT_LT(m_->timeout_io().value(), 0);
    EXPECT_LT(m_->try_run().value(), 0);
    op.cancel();
    run_to_the_end();
  }).join();
  EXPECT_EQ(op.error, condition::canceled);
}

// ---- how it ends before a thread runs it ------------------------------------------------------------------

TEST_P(several, the_deadline_of_what_no_thread_runs_yet_is_that_of_its_start) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory), 5ms)};
  auto const before = clock_type::now();
  op.start();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(m_->timeout_io().value(), 1);
  EXPECT_EQ(op.error, condition::timed_out);
  EXPECT_GE(clock_type::now() - before, 5ms);
}

TEST_P(several, what_no_thread_runs_yet_is_cancelled_by_another_thread) {
  unio::timer_handle t = timer(1h);
  watched op{unio::atomic_async_wait(t)};
  op.start();
  std::thread([&] { op.cancel(); }).join();
  EXPECT_FALSE(op.finished());
  run_to_the_end();
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
}

TEST_P(several, what_no_thread_runs_yet_is_destroyed_without_a_thread_that_runs_it) {
  auto p = make_pipe();
  char memory[4];
  test::tally told;
  {
    auto op =
        unio::connect(unio::atomic_async_read(p.reader, unio::mutable_buffer(memory)), test::tell{&told});
    op.start();
  }
  EXPECT_EQ(told.values + told.ends, 0);
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::none_yet);
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(several, closing_a_handle_ends_what_no_thread_runs_yet) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  op.start();
  ASSERT_TRUE(p.reader.close().has_value());
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(several, closing_a_handle_that_does_not_name_its_multiplexer_ends_what_no_thread_runs_yet) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  op.start();
  p.reader.set_multiplexer(nullptr);
  ASSERT_TRUE(p.reader.close().has_value());
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
}

TEST_P(several, the_multiplexers_end_cancels_what_no_thread_has_run) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  unio::timer_handle t = timer(1h);
  watched tick{unio::async_wait(t)};
  op.start();
  tick.start();
  m_.reset();
  test::expect_ended_once(op);
  test::expect_ended_once(tick);
  EXPECT_EQ(op.error, condition::canceled);
  EXPECT_EQ(tick.error, condition::canceled);
  p.reader.set_multiplexer(nullptr);
  p.writer.set_multiplexer(nullptr);
}

TEST_P(several, a_chain_that_no_thread_runs_yet_runs_or_ends) {
  for (bool const runs : {true, false}) {
    auto p = make_pipe();
    char memory[2][1];
    watched op{unio::async_link(unio::async_read(p.reader, unio::mutable_buffer(memory[0])),
                                unio::async_read(p.reader, unio::mutable_buffer(memory[1])))};
    op.start();
    if (runs) {
      put(p.writer.native_handle(), 2);
      run_to_the_end();
      EXPECT_FALSE(op.error);
    } else {
      ASSERT_TRUE(p.reader.close().has_value());
      EXPECT_EQ(op.error, condition::canceled);
    }
    EXPECT_EQ(op.ends, 1);
  }
}

// ---- no handler inside another ----------------------------------------------------------------------------

struct again {
  explicit again(unio::pipe_handle& r) : reader(r) {}
  unio::pipe_handle& reader;
  int calls = 0, depth = 0, deepest = 0;
  char memory[1];
  void start() {
    unio::start(unio::async_read(reader, unio::mutable_buffer(memory)),
                [this](unio::io_result<unio::mutable_buffers> const&) {
                  deepest = std::max(deepest, ++depth);
                  if (++calls < 1000) start();
                  --depth;
                });
  }
};

TEST_P(several, handlers_of_a_multiplexer_that_has_ended_do_not_nest) {
  auto p = make_pipe();
  m_.reset();
  again a(p.reader);
  a.start();
  EXPECT_EQ(a.calls, 1000);
  EXPECT_EQ(a.deepest, 1);
}

// ---- threads that come and go -----------------------------------------------------------------------------

TEST_P(several, a_thousand_threads_come_and_go) {
  auto p = make_pipe();
  std::atomic<int> done = 0;
  int const fds_before = ::dup(0);
  ::close(fds_before);
  for (int i = 0; i != 250; ++i) {
    test::threads users(4, [&] {
      EXPECT_TRUE(m_->try_run().has_value());
      started op{unio::async_no_op(m_.get())};
      while (!op.finished()) (void)m_->run();
      done.fetch_add(1);
    });
    users.join();
  }
  EXPECT_EQ(done.load(), 1000);
  int const fds_after = ::dup(0);
  ::close(fds_after);
  EXPECT_EQ(fds_before, fds_after) << "descriptors were left";
  EXPECT_EQ(m_->run().value(), 0);
}

// ---- a thread ends, and has something in flight -----------------------------------------------------------

// Has a thread that runs `m` start operations, and ends it.
template <class Start> void on_a_thread_that_ends(io_multiplexer& m, Start start) {
  std::thread([&] {
    EXPECT_TRUE(m.try_run().has_value());
    start();
    EXPECT_TRUE(m.try_run().has_value()); // the kernel has them
  }).join();
}

TEST_P(several, a_read_goes_on_when_its_thread_has_ended) {
  auto p = make_pipe();
  char memory[8];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  on_a_thread_that_ends(*m_, [&] { op.start(); });
  EXPECT_FALSE(op.finished());
  put(p.writer.native_handle(), 3);
  run_to_the_end();
  test::expect_ended_once(op);
  EXPECT_FALSE(op.error) << op.error.message();
  EXPECT_EQ(op.bytes, 3U);
}

TEST_P(several, bytes_that_come_while_a_thread_ends_are_read_once_and_in_order) {
  constexpr int rounds = 200;
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m_.get());
  std::atomic<bool> over = false;
  std::atomic<unsigned> sent = 0;
  std::thread writer([&] {
    for (unsigned char next = 0; !over; ++next) {
      while (::send(pair.second.native_handle(), &next, 1, MSG_DONTWAIT) != 1 && !over)
        std::this_thread::yield();
      sent.fetch_add(1);
      if (next % 16 == 0) std::this_thread::sleep_for(50us);
    }
  });
  std::atomic<unsigned> received = 0;
  std::atomic<bool> in_order = true, stop = false;
  char memory[4];
  std::optional<unio::io_operation_connection<unio::async_read, calls>> op;
  auto const begin = [&] {
    op.emplace(unio::connect(unio::async_read(pair.first, unio::mutable_buffer(memory)), calls{[&] {
                               auto const r = op->result();
                               if (!r.has_value()) {
                                 in_order = false;
                                 return;
                               }
                               for (std::size_t i = 0; i != r->bytes(); ++i)
                                 if (static_cast<unsigned char>(memory[i]) !=
                                     static_cast<unsigned char>(received.fetch_add(1)))
                                   in_order = false;
                               if (stop) return;
                               op->reset();
                               op->start();
                             }}));
    op->start();
  };
  begin();
  for (int i = 0; i != rounds; ++i) {
    std::thread([&] {
      unsigned const before = received;
      for (int turns = 0; turns != 50 && received < before + 8; ++turns)
        ASSERT_TRUE(m_->try_run_for(1ms).has_value());
    }).join();
  }
  over = true;
  writer.join();
  stop = true;
  auto const give_up = clock_type::now() + 20s;
  while (received < sent && clock_type::now() < give_up) {
    (void)m_->try_run_for(1ms);
    if (!op->finished()) continue;
    op->reset();
    op->start();
  }
  EXPECT_TRUE(in_order);
  EXPECT_EQ(received, sent);
}

TEST_P(several, all_kinds_go_on_when_their_thread_has_ended) {
  char memory[8], memory2[8];
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  listener.set_multiplexer(m_.get());
  auto const port = listener.local_endpoint().value();
  auto many = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  many.set_multiplexer(m_.get());
  auto const many_port = many.local_endpoint().value();
  auto datagrams = unio::datagram_handle::pair().value();
  datagrams.first.set_multiplexer(m_.get());
  unio::datagram_info info;
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m_.get());
  unio::buffer_pool pool(4, 64);
  auto p = make_pipe();
  unio::timer_handle soon = timer(30ms);

  watched accept{unio::async_accept(listener)};
  watched accepts{unio::async_accept_many(many)};
  watched datagram{unio::async_receive_from(datagrams.first, unio::mutable_buffer(memory), info)};
  watched lent{unio::async_receive(pair.first, pool)};
  watched read{unio::async_read(p.reader, unio::mutable_buffer(memory2), 1h)};
  watched tick{unio::async_wait(soon)};
  auto const all_start = [&] {
    accept.start();
    accepts.start();
    datagram.start();
    lent.start();
    read.start();
    tick.start();
  };
  on_a_thread_that_ends(*m_, all_start);
  on_a_thread_that_ends(*m_, [] {}); // and once more
  EXPECT_EQ(accept.ends + accepts.ends + datagram.ends + lent.ends + read.ends, 0);

  auto one = unio::socket_handle::connected_to(port).value();
  auto two = unio::socket_handle::connected_to(many_port).value();
  auto three = unio::socket_handle::connected_to(many_port).value();
  put(datagrams.second.native_handle(), 3);
  put(pair.second.native_handle(), 5);
  put(p.writer.native_handle(), 2);
  auto const give_up = clock_type::now() + 20s;
  while ((accepts.values < 2 || !accept.ended() || !datagram.ended() || !lent.ended() || !read.ended() ||
          !tick.ended()) &&
         clock_type::now() < give_up)
    (void)m_->try_run_for(1ms);
  for (test::tally const* t : {static_cast<test::tally*>(&accept), static_cast<test::tally*>(&datagram),
                               static_cast<test::tally*>(&lent), static_cast<test::tally*>(&read),
                               static_cast<test::tally*>(&tick)}) {
    test::expect_ended_once(*t);
    EXPECT_FALSE(t->error) << t->error.message();
  }
  EXPECT_EQ(accepts.values, 2);
  EXPECT_EQ(read.bytes, 2U);
  accepts.cancel();
  while (!accepts.finished()) (void)m_->run();
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(several, many_values_of_one_operation_go_on_when_their_thread_has_ended) {
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m_.get());
  unio::buffer_pool pool(64, 64);
  watched op{unio::async_receive_many(pair.first, pool)};
  op.start();
  std::size_t sent = 0;
  for (int i = 0; i != 30; ++i) {
    std::thread([&] {
      (void)m_->try_run();
      put(pair.second.native_handle(), 1);
      (void)m_->try_run();
      put(pair.second.native_handle(), 2); // which is there when the thread ends
    }).join();
    sent += 3;
  }
  auto const give_up = clock_type::now() + 20s;
  while (op.bytes < sent && clock_type::now() < give_up) (void)m_->try_run_for(1ms);
  EXPECT_EQ(op.bytes, sent);
  EXPECT_FALSE(op.error);
  op.cancel();
  while (!op.finished()) (void)m_->run();
}

TEST_P(several, a_file_read_goes_on_or_has_ended_when_its_thread_has_ended) {
  char name[] = "/tmp/unio-several-XXXXXX";
  int const fd = ::mkstemp(name);
  ASSERT_GE(fd, 0);
  ::unlink(name);
  put(fd, 1 << 20);
  auto file = unio::file_handle::adopt(fd).value();
  file.set_multiplexer(m_.get());
  std::vector<char> memory(1 << 20);
  watched op{unio::async_read(file, {unio::mutable_buffer(memory.data(), memory.size()), 0})};
  on_a_thread_that_ends(*m_, [&] { op.start(); });
  run_to_the_end();
  test::expect_ended_once(op);
  EXPECT_FALSE(op.error) << op.error.message();
  EXPECT_GT(op.bytes, 0U);
}

TEST_P(several, a_connect_goes_on_when_its_thread_has_ended) {
  // Its backlog is full, so that what comes next has to wait.
  auto listener =
      unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0), {.backlog = 1}).value();
  auto const to = listener.local_endpoint().value();
  std::vector<unio::socket_handle> made;
  for (int i = 0; i != 2; ++i) made.push_back(unio::socket_handle::connected_to(to).value());
  auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
  s.set_multiplexer(m_.get());
  watched op{unio::async_connect(s, to)};
  on_a_thread_that_ends(*m_, [&] { op.start(); });
  std::thread accepts([&] {
    for (int i = 0; i != 3; ++i) made.push_back(listener.accept().value());
  });
  run_to_the_end();
  accepts.join();
  test::expect_ended_once(op);
  EXPECT_FALSE(op.error) << op.error.message();
}

TEST_P(several, the_deadline_of_what_a_thread_leaves_keeps_its_moment) {
  auto p = make_pipe();
  char memory[8];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory), 5ms)};
  on_a_thread_that_ends(*m_, [&] { op.start(); });
  std::this_thread::sleep_for(10ms);
  run_to_the_end();
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::timed_out);
}

TEST_P(several, what_a_thread_leaves_wakes_another_that_sleeps) {
  runner r(*m_);
  for (int i = 0; i != 50; ++i) {
    auto p = make_pipe();
    char memory[8];
    std::atomic<bool> done = false;
    auto op = unio::connect(unio::atomic_async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
                              done = true;
                              done.notify_one();
                            }});
    on_a_thread_that_ends(*m_, [&] { op.start(); });
    put(p.writer.native_handle());
    done.wait(false);
    while (!op.finished()) std::this_thread::yield();
    EXPECT_TRUE(op.result().has_value());
  }
}

TEST_P(several, work_posted_by_a_thread_that_ends_is_run_by_another) {
  int ran = 0;
  std::thread([&] {
    (void)m_->try_run();
    for (int i = 0; i != 10; ++i) ASSERT_TRUE(m_->post([&] { ++ran; }));
  }).join();
  run_to_the_end();
  EXPECT_EQ(ran, 10);
}

TEST_P(several, what_was_posted_is_pending_for_others_until_it_has_run) {
  std::latch runs(1), may_end(1);
  std::thread other([&] {
    ASSERT_TRUE(m_->post([&] {
      runs.count_down();
      may_end.wait();
      EXPECT_EQ(m_->try_run().value(), 0) << "not for the thread that runs it";
    }));
    run_to_the_end();
  });
  runs.wait();
  EXPECT_LT(m_->try_run().value(), 0);
  EXPECT_LT(m_->try_run_for(1ms).value(), 0);
  may_end.count_down();
  run_to_the_end();
  other.join();
  EXPECT_EQ(m_->try_run().value(), 0);
}

/// While it lives, the first call in which a thread that has set `here` sleeps, and which brings something,
/// fails afterwards, once `armed`.
class waking_that_fails {
 public:
  waking_that_fails() {
    sleeping = 0;
    armed = false;
    calls_->epoll_wait = [](int epoll, epoll_event* e, int n, timespec const* timeout) noexcept {
      bool const sleeps = timeout == nullptr || timeout->tv_sec != 0 || timeout->tv_nsec != 0;
      return slept(sleeps, 1, [&] { return unio::sys::kernel.epoll_wait(epoll, e, n, timeout); });
    };
    calls_->io_uring_enter = [](int fd, unsigned submit, unsigned wait, unsigned flags, void const* extra,
                                std::size_t size) noexcept {
      return slept(wait != 0, 0,
                   [&] { return unio::sys::kernel.io_uring_enter(fd, submit, wait, flags, extra, size); });
    };
  }
  static inline thread_local bool here = false;
  static inline std::atomic<int> sleeping = 0; ///< threads in such a call
  static inline std::atomic<bool> armed = false;

 private:
  template <class Call> static std::int64_t slept(bool sleeps, int brings, Call call) noexcept {
    sleeping += sleeps;
    std::int64_t const r = call();
    sleeping -= sleeps;
    return sleeps && r >= brings && armed && std::exchange(here, false) ? -EBADF : r;
  }
  replaced_calls calls_;
};

TEST_P(several, a_thread_whose_run_fails_when_it_is_called_leaves_nothing_pending) {
  waking_that_fails const calls;
  auto p = make_pipe();
  char memory[4];
  watched read{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  std::latch joined(1), begun(1), may_end(1);
  std::atomic<bool> ran = false;
  std::thread called([&] {
    (void)m_->try_run(); // its place is the first
    joined.count_down();
    begun.wait();
    waking_that_fails::here = true;
    while (m_->run().value_or(0) != 0) continue;
    may_end.wait();
  });
  joined.wait();
  std::thread other([&] {
    (void)m_->try_run();
    read.start();
    begun.count_down();
    while (!read.finished() || !ran) ASSERT_TRUE(m_->run().has_value());
    EXPECT_EQ(m_->try_run().value(), 0);
    may_end.count_down();
  });
  while (waking_that_fails::sleeping != 2) std::this_thread::sleep_for(1ms);
  waking_that_fails::armed = true;
  ASSERT_TRUE(m_->post([&] { ran = true; }));
  while (!ran) std::this_thread::yield();
  put(p.writer.native_handle());
  called.join();
  other.join();
}

TEST_P(several, an_operation_is_cancelled_by_a_third_thread_while_it_is_handed_over) {
  for (int round = 0; round != 300; ++round) {
    unio::timer_handle t = timer(1h);
    auto p = make_pipe();
    char memory[8];
    watched tick{unio::atomic_async_wait(t)};
    watched read{unio::atomic_async_read(p.reader, unio::mutable_buffer(memory))};
    std::latch both(2);
    std::thread leaver([&] {
      (void)m_->try_run();
      tick.start();
      read.start();
      (void)m_->try_run();
      both.arrive_and_wait();
    });
    std::thread canceller([&] {
      both.arrive_and_wait();
      for (int spins = round % 100 * 10; spins != 0; --spins) (void)read.finished();
      tick.cancel();
      read.cancel();
    });
    leaver.join();
    canceller.join();
    run_to_the_end();
    test::expect_ended_once(tick);
    test::expect_ended_once(read);
    EXPECT_EQ(tick.error, condition::canceled);
    EXPECT_EQ(read.error, condition::canceled);
  }
}

TEST_P(several, a_handle_is_closed_while_what_it_has_in_flight_is_handed_over) {
  for (int round = 0; round != 200; ++round) {
    auto p = make_pipe();
    char memory[8];
    watched read{unio::async_read(p.reader, unio::mutable_buffer(memory))};
    std::latch both(2);
    std::thread leaver([&] {
      (void)m_->try_run();
      read.start();
      (void)m_->try_run();
      both.arrive_and_wait();
    });
    both.arrive_and_wait();
    for (int spins = round % 100 * 10; spins != 0; --spins) (void)read.started();
    ASSERT_TRUE(p.reader.close().has_value());
    test::expect_ended_once(read);
    EXPECT_EQ(read.error, condition::canceled);
    leaver.join();
  }
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(several, what_a_thread_leaves_is_never_seen_as_nothing_pending) {
  for (int round = 0; round != 100; ++round) {
    auto p = make_pipe();
    char memory[8];
    watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
    std::latch is_started(1);
    std::thread leaver([&] {
      (void)m_->try_run();
      op.start();
      (void)m_->try_run();
      is_started.count_down();
    });
    is_started.wait();
    for (int i = 0; i != 20; ++i) EXPECT_NE(m_->try_run().value(), 0);
    leaver.join();
    EXPECT_NE(m_->try_run().value(), 0);
    put(p.writer.native_handle());
    run_to_the_end();
    test::expect_ended_once(op);
    EXPECT_FALSE(op.error);
  }
}

TEST_P(several, a_result_that_a_thread_has_left_is_delivered_at_the_multiplexers_end) {
  for (int round = 0; round != 20; ++round) {
    auto m = test::make_multiplexer(GetParam().c_str(), 2).value();
    auto p = test::pipe_on(m.get());
    char memory[4];
    watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
    std::thread([&] {
      (void)m->try_run();
      op.start();
      (void)m->try_run();
      put(p.writer.native_handle(), 2); // the kernel may have read it when it is asked to give the read back
    }).join();
    EXPECT_FALSE(op.finished());
    m.reset();
    test::expect_ended_once(op);
    p.reader.set_multiplexer(nullptr);
    p.writer.set_multiplexer(nullptr);
  }
}

TEST_P(several, threads_that_sleep_are_woken_in_turns) {
  std::atomic<int> woken[2] = {};
  std::atomic<bool> stop = false;
  unio::timer_handle t = timer(1h);
  watched keep{unio::atomic_async_wait(t)};
  keep.start();
  std::deque<std::thread> threads;
  std::latch all_run(3);
  for (auto& mine : woken)
    threads.emplace_back([&] {
      (void)m_->try_run();
      all_run.count_down();
      while (!stop) {
        (void)m_->run();
        mine.fetch_add(1);
      }
    });
  all_run.arrive_and_wait();
  auto const fewest = [&] { return std::min(woken[0].load(), woken[1].load()); };
  for (int i = 0; i != 500 && fewest() < 30; ++i) {
    m_->wake();
    std::this_thread::sleep_for(200us);
  }
  EXPECT_GE(fewest(), 30);
  stop = true;
  keep.cancel(); // then nothing is pending
  for (auto& each : threads) each.join();
  test::expect_ended_once(keep);
}

// Destroyed after the thread has handed over what it had.
struct late_user {
  io_multiplexer* m = nullptr;
  watched<unio::async_wait>* first = nullptr;
  watched<unio::async_wait>* second = nullptr;
  ~late_user() {
    if (m == nullptr) return;
    first->start(); // which it does not run
    EXPECT_TRUE(m->try_run().has_value());
    second->start(); // which it does
    EXPECT_TRUE(m->try_run().has_value());
  }
};

TEST_P(several, a_thread_that_has_handed_over_may_run_it_again_and_hands_over_again) {
  unio::timer_handle t = timer(20ms);
  watched first{unio::async_wait(t)}, second{unio::async_wait(t)};
  std::thread([&] {
    static thread_local late_user late; // made before the thread runs it, and so destroyed after that ends
    late.m = m_.get();
    late.first = &first;
    late.second = &second;
    (void)m_->try_run();
  }).join();
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::none_yet);
  run_to_the_end();
  for (test::tally const* each : {static_cast<test::tally*>(&first), static_cast<test::tally*>(&second)}) {
    test::expect_ended_once(*each);
    EXPECT_FALSE(each->error);
  }
}

TEST_P(several, the_multiplexers_end_cancels_what_a_thread_has_left) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  on_a_thread_that_ends(*m_, [&] { op.start(); });
  m_.reset();
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
  p.reader.set_multiplexer(nullptr);
  p.writer.set_multiplexer(nullptr);
}

TEST_P(several, the_multiplexers_end_cancels_what_is_in_flight_on_a_thread_that_lives) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  std::latch is_started(1), may_end(1);
  std::thread other([&] {
    (void)m_->try_run();
    op.start();
    (void)m_->try_run();
    is_started.count_down();
    may_end.wait();
  });
  is_started.wait();
  m_.reset();
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
  p.reader.set_multiplexer(nullptr);
  p.writer.set_multiplexer(nullptr);
  may_end.count_down();
  other.join();
}

TEST_P(several, a_child_of_fork_does_its_own_while_operations_are_unclaimed) {
  runner r(*m_);
  auto const other = test::make_multiplexer(GetParam().c_str(), 2).value();
  unio::timer_handle t2(1h, other.get());
  watched unclaimed{unio::atomic_async_wait(t2)};
  unclaimed.start();
  test::expect_in_child([&] {
    started refused{unio::async_no_op(other.get())};
    CHILD_EXPECTS(refused.finished() && refused.error == unio::error::inherited_by_fork);
    CHILD_EXPECTS(other->run().error() == unio::error::inherited_by_fork);
    auto p = unio::pipe_handle::anonymous().value();
    char memory[1];
    started read{unio::async_read(p.reader, unio::mutable_buffer(memory))};
    CHILD_EXPECTS(::write(p.writer.native_handle(), "x", 1) == 1);
    while (!read.finished()) (void)unio::this_thread::multiplexer().run();
    CHILD_EXPECTS(!read.error);
    auto const own = io_multiplexer::best_available(2).value();
    unio::timer_handle soon(1ms, own.get());
    started tick{unio::async_wait(soon)};
    while (!tick.finished()) (void)own->run();
    return CHILD_MEETS(!tick.error);
  });
  unclaimed.cancel();
  while (other->run().value() != 0) continue;
  EXPECT_TRUE(unclaimed.finished());
}

// The thread that rings has the lock by which those that wake another one keep that one's doorbell open.
TEST_P(several, a_child_of_fork_posts_and_wakes_though_another_thread_was_waking_one) {
  static std::atomic<bool> rings = false, may_ring = false;
  test::replaced_calls calls;
  calls->write = [](int fd, void const* from, std::size_t n) noexcept {
    if (n == sizeof(std::uint64_t) && !may_ring) {
      rings = true;
      while (!may_ring) std::this_thread::yield();
    }
    return unio::sys::kernel.write(fd, from, n);
  };
  rings = may_ring = false;
  runner r(*m_);
  std::thread wakes([&] {
    while (!rings) m_->wake(); // which rings as soon as the runner sleeps
  });
  while (!rings) std::this_thread::yield();
  test::expect_in_child([&] {
    may_ring = true;
    ::alarm(30); // if it waits for ever
    test::counting_work posted, spawned;
    m_->post(posted);
    m_->spawn(spawned);
    m_->wake();
    return CHILD_MEETS(m_->withdraw(posted) && m_->withdraw(spawned));
  });
  may_ring = true;
  wakes.join();
}

/// While it lives, a yield gives way to no other thread, as one of a thread with a priority of real time does
/// where the others have a lower one: those go on once a thread sleeps.
class yields_in_vain {
 public:
  yields_in_vain() {
    yields = 0;
    has_slept = false;
    calls_->sched_yield = []() noexcept -> std::int64_t {
      if (++yields == too_many) has_slept = true;
      return 0;
    };
    calls_->poll = [](pollfd* fds, unsigned n, timespec const* timeout) noexcept {
      if (n == 0) has_slept = true;
      return unio::sys::kernel.poll(fds, n, timeout);
    };
  }
  static constexpr int too_many = 1'000'000;
  static inline std::atomic<int> yields = 0;
  static inline std::atomic<bool> has_slept = false;

 private:
  replaced_calls calls_;
};

TEST_P(several, a_thread_that_waits_for_anothers_receiver_sleeps) {
  yields_in_vain const real_time; // before a thread looks at the calls
  runner r(*m_);
  std::latch is_notified(1);
  {
    unio::timer_handle t = timer(1us);
    auto op = unio::connect(unio::atomic_async_wait(t), calls{[&] {
                              is_notified.count_down();
                              while (!yields_in_vain::has_slept) std::this_thread::yield();
                            }});
    op.start();
    is_notified.wait();
  } // is destroyed while its receiver runs
  EXPECT_LT(yields_in_vain::yields, yields_in_vain::too_many);
}

TEST_P(several, what_no_thread_runs_yet_is_shown_as_such) {
  auto p = make_pipe();
  char memory[4];
  watched op{unio::atomic_async_read(p.reader, unio::mutable_buffer(memory))};
  op.start();
  std::ostringstream text;
  unio::dump_pending(text);
  EXPECT_NE(text.str().find("unclaimed"), std::string::npos) << text.str();
  op.cancel();
  run_to_the_end();
}

} // namespace
