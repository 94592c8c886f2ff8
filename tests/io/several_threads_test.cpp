// multiplexer.hpp: a multiplexer that any number of threads run. Who runs an operation that was started by a
// thread that does not; threads that come and go; what a thread leaves that ends.
//
// Posting, waking and what run() returns are in multiplexer_test.cpp.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/work.hpp"

#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using test::calls;
using test::started;
using test::watchdog;
using test::watched;
using unio::condition;
using unio::io_multiplexer;

class several : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto made = test::make_multiplexer(GetParam().c_str(), 2);
    if (!made.has_value()) GTEST_SKIP() << made.error().message();
    m_ = std::move(*made);
  }
  [[nodiscard]] unio::anonymous_pipe make_pipe() const { return test::pipe_on(m_.get()); }
  unio::timer_handle timer(unio::deadline d) { return unio::timer_handle(d, m_.get()); }
  void run_to_the_end() {
    while (m_->run().value() != 0) {
    }
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
  watchdog const w;
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
  watchdog const w;
  runner r(*m_);
  for (int round = 0; round != 100; ++round) {
    if (round % 10 == 0) std::this_thread::sleep_for(1ms); // so that it sleeps
    auto p = make_pipe();
    char memory[4];
    std::atomic<bool> done = false;
    std::thread::id where;
    auto op = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
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
  watchdog const w;
  runner r(*m_);
  std::latch is_busy(1), may_go_on(1);
  ASSERT_TRUE(m_->post([&] {
    is_busy.count_down();
    may_go_on.wait();
  }));
  is_busy.wait();
  std::atomic<bool> done = false;
  unio::timer_handle t = timer(1ms);
  auto op = unio::connect(unio::async_wait(t), calls{[&] {
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
  watchdog const w(100s);
  constexpr int starters = 3, each = 300;
  std::atomic<int> done = 0;
  {
    runner a(*m_), b(*m_);
    test::threads outside(starters, [&] {
      std::vector<unio::anonymous_pipe> pipes;
      std::deque<unio::io_operation_connection<unio::async_read, calls>> ops;
      char memory[1];
      for (int i = 0; i != 20; ++i) pipes.push_back(make_pipe());
      std::atomic<int> mine = 0;
      for (int i = 0; i != each; ++i) {
        auto& p = pipes[static_cast<std::size_t>(i) % pipes.size()];
        ops.push_back(unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
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
  watchdog const w;
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
  watchdog const w;
  auto p = make_pipe();
  char memory[4];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  op.start();
  EXPECT_EQ(op.poll(), unio::io_status::pending);
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::this_thread);
  put(p.writer.native_handle());
  while (op.poll() == unio::io_status::pending) {
  }
  test::expect_ended_once(op);
}

TEST_P(several, a_blocking_call_makes_its_thread_one_that_runs_it) {
  watchdog const w;
  auto p = make_pipe();
  put(p.writer.native_handle(), 2);
  char memory[4];
  EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory)).value().bytes(), 2U);
  EXPECT_EQ(m_->run_by(), io_multiplexer::runner::this_thread);
}

TEST_P(several, what_no_thread_runs_yet_counts_as_pending) {
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
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
  watchdog const w;
  for (bool const runs : {true, false}) {
    auto p = make_pipe();
    char memory[2][1];
    watched op{unio::link(unio::async_read(p.reader, unio::mutable_buffer(memory[0])),
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
  watchdog const w;
  auto p = make_pipe();
  m_.reset();
  again a(p.reader);
  a.start();
  EXPECT_EQ(a.calls, 1000);
  EXPECT_EQ(a.deepest, 1);
}

// ---- threads that come and go -----------------------------------------------------------------------------

TEST_P(several, a_thousand_threads_come_and_go) {
  watchdog const w(100s);
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

} // namespace
