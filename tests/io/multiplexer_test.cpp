// multiplexer.hpp and connect.hpp: the loop's functions, their bounds and what they return; posting and
// waking; fairness; several threads; atomic forms; which driver; the life of a connection.
//
// What operations do is in op/operations_test.cpp. Tests of `on` run on each driver that this system offers.

#include "support/calls.hpp"
#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"
#include "sys/sanitizer.hpp"

#include <unistd.h>

#include <latch>
#include <tuple>

namespace {

using namespace test;
using clock_type = std::chrono::steady_clock;

void put(unio::pipe_handle& writer, std::size_t bytes = 1) {
  std::string const text(bytes, 'x');
  ASSERT_EQ(::write(writer.native_handle(), text.data(), bytes), static_cast<ssize_t>(bytes));
}

class on : public test::on_each_driver {
 protected:
  unio::timer_handle timer(deadline d) { return unio::timer_handle(d, m_.get()); }
};

UNIO_ON_BOTH_DRIVERS(on);

// ---- what the loop's functions return --------------------------------------------------------------------

TEST_P(on, nothing_pending_is_zero) {
  EXPECT_EQ(m_->complete_io().value(), 0);
  EXPECT_EQ(m_->timeout_io().value(), 0);
  EXPECT_EQ(m_->invoke_posted_items().value(), 0);
  EXPECT_EQ(m_->run().value(), 0);
  EXPECT_EQ(m_->try_run().value(), 0);
  EXPECT_EQ(m_->try_run_for(1h).value(), 0); // it does not wait for what cannot come
  EXPECT_EQ(m_->try_run_until(clock_type::now() + 1h).value(), 0);
}

TEST_P(on, pending_but_not_ready_is_negative) {
  auto p = make_pipe();
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory), 1h)};
  EXPECT_LT(m_->complete_io().value(), 0);
  EXPECT_LT(m_->timeout_io().value(), 0);
  EXPECT_EQ(m_->invoke_posted_items().value(), 0); // nothing was posted
  EXPECT_LT(m_->try_run().value(), 0);
  auto const before = clock_type::now();
  EXPECT_LT(m_->try_run_for(10ms).value(), 0);
  EXPECT_GE(clock_type::now() - before, 10ms);
  EXPECT_LT(m_->try_run_until(clock_type::now() + 5ms).value(), 0);
  EXPECT_LT(m_->try_run_until(std::chrono::system_clock::now() + 5ms).value(), 0);
}

TEST_P(on, completions_are_counted) {
  auto p = make_pipe();
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  EXPECT_LT(m_->complete_io().value(), 0);
  put(p.writer);
  int n = 0;
  auto const give_up = clock_type::now() + 10s;
  while ((n = m_->complete_io().value()) < 0 && clock_type::now() < give_up) continue;
  EXPECT_EQ(n, 1);
  EXPECT_EQ(op.values, 1);
  EXPECT_EQ(m_->complete_io().value(), 0);
}

TEST_P(on, several_threads_each_part_of_the_loop_is_that_of_the_calling_one) {
  auto const shared = test::make_multiplexer(GetParam().c_str(), 2).value();
  EXPECT_EQ(shared->counters().started, 0u);
  auto p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(shared.get());
  char memory[4];
  started read{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  unio::timer_handle t(deadline(1ms), shared.get());
  started late{unio::async_wait(t)};
  EXPECT_LT(shared->complete_io().value(), 0);
  EXPECT_EQ(shared->invoke_posted_items().value(), 0);
  auto const give_up = clock_type::now() + 10s;
  while (late.values == 0 && clock_type::now() < give_up) (void)shared->timeout_io();
  EXPECT_EQ(late.values, 1);
  EXPECT_EQ(read.values, 0);
  put(p.writer);
  while (read.values == 0 && clock_type::now() < give_up) (void)shared->complete_io();
  EXPECT_EQ(read.values, 1);
  EXPECT_EQ(shared->complete_io().value(), 0);
  EXPECT_EQ(shared->counters().started, 2u);
  EXPECT_EQ(shared->counters().finished, 2u);
  std::thread([&] { EXPECT_EQ(shared->counters().started, 0u) << "another thread's own"; }).join();
}

TEST_P(on, what_start_delivered_is_credited_to_the_next_call) {
  auto p = make_pipe();
  put(p.writer);
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  ASSERT_EQ(op.values, 1) << "there was data: it completes at once";
  EXPECT_EQ(m_->complete_io().value(), 1);
  EXPECT_EQ(m_->complete_io().value(), 0);
}

TEST_P(on, run_returns_as_soon_as_something_was_delivered_inside_start) {
  auto p = make_pipe();
  auto never = make_pipe();
  char memory[4];
  started waiting{unio::async_read(never.reader, unio::mutable_buffer(memory))};
  (void)m_->try_run();
  put(p.writer);
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  watchdog const w;
  EXPECT_EQ(m_->run().value(), 1); // it would sleep for ever otherwise
}

TEST_P(on, deadlines_pass_in_timeout_io_and_not_in_complete_io) {
  unio::timer_handle t = timer(1ms);
  started op{unio::async_wait(t)};
  std::this_thread::sleep_for(3ms);
  EXPECT_LT(m_->complete_io().value(), 0);
  EXPECT_EQ(op.values, 0);
  EXPECT_EQ(m_->timeout_io().value(), 1);
  EXPECT_EQ(op.values, 1);
  EXPECT_EQ(m_->timeout_io().value(), 0);
}

TEST_P(on, no_more_than_max_items_are_completed_in_one_call) {
  constexpr int n = 10;
  std::vector<unio::anonymous_pipe> pipes;
  std::deque<started<unio::async_read>> ops;
  char memory[4];
  for (int i = 0; i < n; ++i) pipes.push_back(make_pipe());
  for (auto& p : pipes) ops.emplace_back(unio::async_read(p.reader, unio::mutable_buffer(memory)));
  (void)m_->try_run();
  for (auto& p : pipes) put(p.writer);
  watchdog const w;
  int left = n;
  while (left > 0) {
    int const r = m_->complete_io(3).value();
    if (r < 0) continue;
    EXPECT_LE(r, 3);
    left -= r;
  }
  EXPECT_EQ(left, 0);
  for (auto const& op : ops) test::expect_ended_once(op);
}

// A loop whose bound is shorter than one look at the kernel must still get somewhere.
TEST_P(on, a_bound_that_has_passed_allows_one_delivery_and_no_more) {
  auto p = make_pipe();
  auto q = make_pipe();
  char memory[2][4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory[0]))};
  started other{unio::async_read(q.reader, unio::mutable_buffer(memory[1]))};
  (void)m_->try_run();
  put(p.writer);
  put(q.writer);
  EXPECT_LT(m_->complete_io(0).value(), 0);
  EXPECT_EQ(op.values + other.values, 0);
  watchdog const w;
  for (int expected = 1; expected <= 2; ++expected) {
    int n;
    while ((n = m_->complete_io_within(clock_type::now() - 1ms).value()) < 0) continue;
    EXPECT_EQ(n, 1);
    EXPECT_EQ(op.values + other.values, expected);
  }
}

TEST_P(on, timeouts_are_bounded_by_items_and_by_time) {
  std::deque<started<unio::async_wait>> ops;
  unio::timer_handle t = timer(1ms);
  for (int i = 0; i != 10; ++i) ops.emplace_back(unio::async_wait(t));
  std::this_thread::sleep_for(3ms);
  EXPECT_EQ(m_->timeout_io_within(clock_type::now() - 1ms).value(), 1);
  EXPECT_EQ(m_->timeout_io(4).value(), 4);
  EXPECT_EQ(std::ranges::count_if(ops, [](auto const& op) { return op.values == 1; }), 5);
  EXPECT_EQ(m_->timeout_io_within(1h).value(), 5);
}

TEST_P(on, posted_items_are_bounded_by_items_and_by_time) {
  int ran = 0;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(m_->post([&] { ++ran; }));
  EXPECT_EQ(m_->invoke_posted_items_within(clock_type::now() - 1ms).value(), 1);
  EXPECT_EQ(m_->invoke_posted_items(4).value(), 4);
  EXPECT_EQ(ran, 5);
  EXPECT_EQ(m_->invoke_posted_items_within(1h).value(), 5);
  EXPECT_EQ(m_->invoke_posted_items().value(), 0);
}

TEST_P(on, posted_items_run_in_the_order_in_which_they_were_posted) {
  std::string order;
  for (char c = 'a'; c <= 'e'; ++c) ASSERT_TRUE(m_->post([&order, c] { order += c; }));
  EXPECT_EQ(m_->invoke_posted_items(2).value(), 2);
  for (char c = 'f'; c <= 'h'; ++c) ASSERT_TRUE(m_->post([&order, c] { order += c; }));
  EXPECT_EQ(m_->run().value(), 6);
  EXPECT_EQ(order, "abcdefgh");
}

TEST_P(on, what_a_posted_item_posts_runs_in_a_later_call) {
  int ran = 0;
  std::function<void()> again = [&] {
    ++ran;
    if (ran < 3) (void)m_->post(again);
  };
  ASSERT_TRUE(m_->post(again));
  EXPECT_EQ(m_->invoke_posted_items().value(), 1);
  EXPECT_EQ(m_->invoke_posted_items().value(), 1);
  EXPECT_EQ(m_->run().value(), 1);
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(on, run_respects_max_items) {
  int ran = 0;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(m_->post([&] { ++ran; }));
  EXPECT_LT(m_->run(0).value(), 0) << "something is posted";
  EXPECT_EQ(m_->run(2).value(), 2);
  EXPECT_EQ(m_->try_run(2).value(), 2);
  EXPECT_EQ(m_->run(2).value(), 1);
  EXPECT_EQ(ran, 5);
}

TEST_P(on, run_sleeps_until_the_earliest_deadline) {
  unio::timer_handle far = timer(1h), near = timer(15ms);
  started const a{unio::async_wait(far)}, b{unio::async_wait(near)};
  std::uint64_t const turns = m_->counters().turns;
  auto const before = clock_type::now();
  EXPECT_EQ(m_->run().value(), 1);
  EXPECT_GE(clock_type::now() - before, 15ms);
  // The clock and the timers of a machine may differ by a few ns; spinning would be thousands of turns.
  EXPECT_LE(m_->counters().turns - turns, 20U) << "it asked the kernel again and again instead of sleeping";
}

// ---- deadlines of operations -----------------------------------------------------------------------------

TEST_P(on, a_deadline_in_the_past_passes_at_once_and_the_largest_never) {
  auto p = make_pipe();
  char memory[4];
  for (deadline const d :
       {deadline(clock_type::now() - 1h), deadline(std::chrono::system_clock::now() - 1h),
        deadline(clock_type::time_point::min()), deadline(std::chrono::system_clock::time_point::min())}) {
    started op{unio::async_read(p.reader, unio::mutable_buffer(memory), d)};
    while (!op.finished()) (void)m_->run();
    EXPECT_EQ(op.result().error(), condition::timed_out);
  }
  for (deadline const d :
       {deadline(std::chrono::nanoseconds::max()), deadline(clock_type::time_point::max()),
        deadline(std::chrono::hours::max()), deadline(std::chrono::nanoseconds::max() - 1ns)}) {
    started op{unio::async_read(p.reader, unio::mutable_buffer(memory), d)};
    EXPECT_LT(m_->try_run_for(2ms).value(), 0);
    put(p.writer);
    while (!op.finished()) (void)m_->run();
    EXPECT_EQ(op.result().value().bytes(), 1U);
  }
  started op{unio::try_async_read(p.reader, unio::mutable_buffer(memory))};
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.result().error(), condition::would_block);
}

TEST_P(on, a_loop_that_runs_until_a_moment_before_its_clock_began_does_not_sleep) {
  unio::timer_handle far = timer(1h);
  started const op{unio::async_wait(far)};
  for (clock_type::time_point const long_ago : {clock_type::time_point(), clock_type::time_point::min()})
    EXPECT_LT(m_->try_run_until(long_ago).value(), 0);
}

TEST_P(on, data_that_is_there_beats_a_deadline_that_has_passed) {
  auto p = make_pipe();
  put(p.writer);
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory), clock_type::now() - 1h)};
  while (!op.finished()) (void)m_->run();
  EXPECT_EQ(op.result().value_or(unio::mutable_buffers()).bytes(), 1U);
}

// ---- posting and waking ----------------------------------------------------------------------------------

TEST_P(on, of_a_hundred_thousand_posts_of_four_threads_none_is_lost) {
  constexpr int threads = 4, each = 25'000;
  watchdog const w(200s);
  auto never = make_pipe();
  char memory[4];
  watched waiting{unio::async_read(never.reader, unio::mutable_buffer(memory))};
  waiting.start(); // so that run() sleeps
  std::atomic<int> ran = 0;
  std::vector<std::vector<counting_work>> items(threads);
  for (auto& mine : items) {
    mine = std::vector<counting_work>(each);
    for (counting_work& i : mine) i.ran = &ran;
  }
  std::vector<std::thread> posters;
  for (auto& mine : items) {
    posters.emplace_back([&] {
      for (int i = 0; i < each; ++i) {
        m_->post(mine[i]);
        if (i % 256 == 0) std::this_thread::sleep_for(20us); // lets the loop fall asleep
      }
    });
  }
  while (ran < threads * each) ASSERT_TRUE(m_->run().has_value());
  for (std::thread& t : posters) t.join();
  EXPECT_EQ(ran, threads * each);
}

TEST_P(on, each_post_wakes_a_loop_that_sleeps) {
  watchdog const w;
  auto never = make_pipe();
  char memory[4];
  started waiting{unio::async_read(never.reader, unio::mutable_buffer(memory))};
  constexpr int rounds = 3000;
  std::atomic<int> ran = 0;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      (void)m_->post([&] {
        ran.fetch_add(1);
        ran.notify_all();
      });
      for (int seen = ran.load(); seen <= i; seen = ran.load()) ran.wait(seen);
    }
  });
  while (ran.load() < rounds) ASSERT_TRUE(m_->run().has_value());
  other.join();
}

TEST_P(on, wake_ends_a_run_that_sleeps_and_nothing_else_does) {
  watchdog const w;
  unio::timer_handle t = timer(1h);
  started waiting{unio::async_wait(t)};
  (void)m_->try_run();
  for (int i = 0; i < 100; ++i) {
    std::thread other([&] { m_->wake(); });
    EXPECT_LT(m_->run().value(), 0);
    other.join();
  }
  EXPECT_LT(m_->try_run_for(5ms).value(), 0);
}

TEST_P(on, a_wake_before_run_is_not_lost) {
  watchdog const w;
  unio::timer_handle t = timer(1h);
  started waiting{unio::async_wait(t)};
  m_->wake();
  EXPECT_LT(m_->run().value(), 0);
}

TEST_P(on, items_that_were_not_run_are_dropped_at_the_end) {
  std::atomic<int> ran = 0, dropped = 0;
  counting_work items[5];
  for (counting_work& i : items) {
    i.ran = &ran;
    i.dropped = &dropped;
    m_->post(i);
  }
  EXPECT_EQ(m_->invoke_posted_items(2).value(), 2); // the others have been taken from the inbox by now
  counting_work late;
  late.ran = &ran;
  late.dropped = &dropped;
  m_->post(late);
  auto const kept = std::make_shared<int>();
  ASSERT_TRUE(m_->post([kept, &ran] { ++ran; }));
  m_.reset();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(dropped, 4);
  EXPECT_EQ(kept.use_count(), 1) << "what was posted is destroyed";
}

TEST_P(on, what_is_in_flight_at_the_end_is_cancelled) {
  auto p = make_pipe();
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  (void)m_->try_run();
  m_.reset();
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.values, 1);
  EXPECT_EQ(op.ends, 1);
  EXPECT_EQ(op.result().error(), condition::canceled);
  p.reader.set_multiplexer(nullptr);
  p.writer.set_multiplexer(nullptr);
}

// ---- fairness --------------------------------------------------------------------------------------------

TEST_P(on, a_source_that_is_always_ready_does_not_starve_another) {
  watchdog const w;
  auto busy = make_pipe();
  auto other = make_pipe();
  put(busy.writer, 4096);
  char memory[1], memory2[4];
  int values = 0;
  int before_the_other = -1;
  using connection = unio::io_operation_connection<unio::async_read, calls>;
  connection read;
  bool stop = false;
  read = unio::connect(unio::async_read(busy.reader, unio::mutable_buffer(memory)), calls{[&] {
                         ++values;
                         if (stop || values >= 4000) return;
                         read.reset();
                         read.start();
                       }});
  auto second = unio::connect(unio::async_read(other.reader, unio::mutable_buffer(memory2)), calls{[&] {
                                before_the_other = values;
                                stop = true;
                              }});
  second.start();
  (void)m_->try_run();
  put(other.writer);
  read.start();
  EXPECT_LE(values, 64) << "start() has to return";
  int most = 0;
  for (int turn = 0; turn < 10 && !second.finished(); ++turn) {
    int const before = values;
    ASSERT_GT(m_->try_run().value(), 0);
    most = std::max(most, values - before);
  }
  EXPECT_LE(most, 64 + 2);
  EXPECT_TRUE(second.finished());
  EXPECT_GE(before_the_other, 1);
  EXPECT_LE(before_the_other, 4 * 64) << "it came to its turn far too late";
  while (!read.finished()) (void)m_->run();
}

// ---- atomic forms ----------------------------------------------------------------------------------------

TEST_P(on, an_atomic_form_is_cancelled_by_another_thread_while_it_completes) {
  watchdog const w(250s);
  constexpr int rounds = unio::sys::is_sanitized ? 1000 : 20'000;
  auto p = make_pipe();
  (void)m_->try_run();
  using connection = started<unio::atomic_async_read>;
  std::atomic<connection*> published = nullptr;
  std::atomic<int> cancelled = 0;
  std::thread canceller([&] {
    for (int i = 0; i < rounds; ++i) {
      connection* op = nullptr;
      while ((op = published.exchange(nullptr)) == nullptr) std::this_thread::yield();
      op->cancel();
      cancelled.store(i + 1);
    }
  });
  int read = 0, stopped = 0;
  char memory[1];
  for (int i = 0; i < rounds; ++i) {
    connection op{unio::atomic_async_read(p.reader, unio::mutable_buffer(memory))};
    published.store(&op);
    if (i % 3 == 0) put(p.writer);
    while (!op.finished()) ASSERT_TRUE(m_->try_run_for(1ms).has_value());
    test::expect_ended_once(op);
    ++(op.result().has_value() ? read : stopped);
    while (cancelled.load() <= i) std::this_thread::yield(); // it must not touch what is gone
  }
  canceller.join();
  EXPECT_EQ(read + stopped, rounds);
  // No byte was lost: what was not read is still there.
  for (char c; ::read(p.reader.native_handle(), &c, 1) == 1;) ++read;
  EXPECT_EQ(read, (rounds + 2) / 3);
  EXPECT_EQ(m_->counters().started, m_->counters().finished);
}

// What has been started is pending, although the thread that runs the loop has not looked yet.
TEST_P(on, an_atomic_form_that_another_thread_has_started_counts_as_pending) {
  watchdog const w;
  EXPECT_EQ(m_->timeout_io().value(), 0);
  auto long_timer = timer(1h);
  watched op{unio::atomic_async_wait(long_timer)};
  std::thread([&] { op.start(m_.get()); }).join();
  EXPECT_LT(m_->timeout_io().value(), 0);
  (void)m_->try_run();
  op.cancel();
  while (!op.finished()) (void)m_->run();
}

TEST_P(on, an_atomic_form_is_started_by_another_thread) {
  watchdog const w;
  auto p = make_pipe();
  unio::timer_handle t = timer(1h);
  started keep{unio::async_wait(t)};
  (void)m_->try_run();
  char memory[1];
  std::thread::id where;
  for (int i = 0; i < 200; ++i) {
    auto op = unio::connect(unio::atomic_async_read(p.reader, unio::mutable_buffer(memory)),
                            calls{[&] { where = std::this_thread::get_id(); }});
    std::thread starter([&] {
      op.start();
      put(p.writer);
    });
    while (!op.finished()) (void)m_->run();
    starter.join();
    EXPECT_EQ(where, std::this_thread::get_id());
    EXPECT_EQ(op.result().value().bytes(), 1U);
  }
}

TEST(atomic_form, stays_atomic_when_it_is_moved_but_not_as_its_plain_sender) {
  unio::timer_handle t;
  unio::atomic_async_wait first(t);
  unio::atomic_async_wait second(std::move(first));
  EXPECT_TRUE(second.is_atomic());
  first = std::move(second);
  EXPECT_TRUE(first.is_atomic());
  unio::async_wait plain(std::move(first)); // which has no link for the requests of other threads
  EXPECT_FALSE(plain.is_atomic());
  plain = unio::async_wait(t);
  EXPECT_FALSE(plain.is_atomic());
}

// ---- handles and their multiplexer -----------------------------------------------------------------------

TEST_P(on, a_blocking_call_keeps_the_multiplexers_other_operations_moving) {
  watchdog const w;
  auto a = make_pipe();
  auto b = make_pipe();
  char memory[1], memory2[1];
  std::atomic<int> moved = 0;
  auto op = unio::connect(unio::async_read(a.reader, unio::mutable_buffer(memory)), calls{[&] { ++moved; }});
  op.start();
  unio::timer_handle t = timer(10ms);
  auto tick = unio::connect(unio::async_wait(t), calls{[&] { ++moved; }});
  tick.start();
  // What the call waits for comes when both have ended, so that it hangs unless they do while it waits.
  std::thread peer([&] {
    put(a.writer);
    while (moved != 2) std::this_thread::sleep_for(1ms);
    put(b.writer);
  });
  EXPECT_EQ(b.reader.read(unio::mutable_buffer(memory2)).value().bytes(), 1U);
  peer.join();
  EXPECT_TRUE(op.finished());
}

TEST_P(on, a_handle_closed_by_the_thread_that_runs_several_multiplexers_has_nothing_left_in_flight) {
  auto p = test::pipe_on(nullptr);
  char memory[1];
  p.reader.set_multiplexer(m_.get());
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  (void)m_->try_run();
  p.reader.set_multiplexer(nullptr); // the handle no longer says where its operations are
  ASSERT_TRUE(p.reader.close());
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.result().error(), condition::canceled);
}

TEST(this_thread, has_a_multiplexer_of_its_own) {
  io_multiplexer* const mine = &unio::this_thread::multiplexer();
  EXPECT_EQ(&unio::this_thread::multiplexer(), mine);
  EXPECT_EQ(unio::this_thread::multiplexer_if_any(), mine);
  io_multiplexer* other = nullptr;
  std::thread([&] {
    EXPECT_EQ(unio::this_thread::multiplexer_if_any(), nullptr);
    other = &unio::this_thread::multiplexer();
    EXPECT_NE(other, mine); // both live at this moment
  }).join();
  unio::pipe_handle const p = unio::pipe_handle::anonymous().value().reader;
  EXPECT_EQ(p.multiplexer(), mine);
  EXPECT_FALSE(p.has_multiplexer());
}

// ---- which driver ----------------------------------------------------------------------------------------

TEST(driver, that_is_unknown_is_an_error_that_lists_the_choices) {
  for (int const threads : {1, 2}) {
    auto const made = test::make_multiplexer("nonsense", threads);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error(), unio::error::unknown_driver);
    EXPECT_EQ(made.error(), std::errc::invalid_argument);
    std::string const message = made.error().message();
    EXPECT_NE(message.find("uring"), std::string::npos) << message;
    EXPECT_NE(message.find("epoll"), std::string::npos) << message;
  }
}

TEST(driver, that_cannot_be_made_ends_operations_of_the_threads_own_multiplexer_with_the_reason) {
  std::thread([] {
    test::environment_variable const nonsense("UNIO_DRIVER", "nonsense");
    unio::pipe_handle reader = unio::pipe_handle::anonymous().value().reader;
    char memory[1];
    started op{unio::async_read(reader, unio::mutable_buffer(memory))};
    EXPECT_TRUE(op.finished());
    EXPECT_EQ(op.values, 1);
    EXPECT_EQ(op.ends, 1);
    EXPECT_EQ(op.result().error(), unio::error::unknown_driver);
    EXPECT_EQ(unio::this_thread::multiplexer().run().error(), unio::error::unknown_driver);
    std::string const why = unio::this_thread::multiplexer().capabilities().why;
    EXPECT_EQ(why, "UNIO_DRIVER=nonsense: the choices are uring and epoll");
  }).join();
}

TEST(driver, that_is_to_have_no_such_number_of_entries_is_an_error_that_says_so) {
  for (char const* const text : {"abc", "0", "-1", "32769", "12 ", "1e3", "99999999999999999999"}) {
    SCOPED_TRACE(text);
    test::environment_variable const entries("UNIO_RING_ENTRIES", text);
    for (int const threads : {1, 2}) {
      auto const made = io_multiplexer::best_available(threads);
      EXPECT_EQ(made.error(), unio::error::bad_ring_entries);
      EXPECT_EQ(made.error(), std::errc::invalid_argument);
      EXPECT_TRUE(test::contains(made.error().message(), "UNIO_RING_ENTRIES")) << made.error().message();
    }
    std::thread([&] {
      io_multiplexer& own = unio::this_thread::multiplexer();
      EXPECT_EQ(own.try_run().error(), unio::error::bad_ring_entries);
      EXPECT_EQ(own.capabilities().why,
                "UNIO_RING_ENTRIES=" + std::string(text) + ": it takes a number from 1 to 32768");
    }).join();
  }
  test::environment_variable const entries("UNIO_RING_ENTRIES", "32768");
  EXPECT_TRUE(io_multiplexer::best_available(1).has_value());
}

TEST(driver, that_was_asked_for_is_the_one_that_is_used) {
  auto const epoll = test::make_multiplexer("epoll").value();
  EXPECT_STREQ(epoll->capabilities().driver, "epoll");
  EXPECT_NE(epoll->capabilities().why, "");
  EXPECT_EQ(epoll->capabilities().ring_entries, 0U);
  auto const ring = test::make_multiplexer("uring");
  if (!ring.has_value()) GTEST_SKIP() << ring.error().message();
  EXPECT_STREQ((*ring)->capabilities().driver, "io_uring");
  EXPECT_EQ((*ring)->capabilities().why, "");
  EXPECT_GT((*ring)->capabilities().ring_entries, 0U);
}

TEST(driver, describes_itself_in_lines_of_name_and_value) {
  for (std::string const& name : test::available_drivers()) {
    unio::capabilities const c = test::make_multiplexer(name.c_str(), 2).value()->capabilities();
    EXPECT_EQ(c.threads, 2U);
    std::string const text = to_string(c);
    EXPECT_EQ(text.rfind("driver: " + std::string(c.driver) + "\n", 0), 0U) << text;
    EXPECT_NE(text.find("\nthreads: 2\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("ring entries: ") != std::string::npos, c.ring_entries != 0) << text;
    EXPECT_EQ(text.find("why: ") != std::string::npos, !c.why.empty()) << text;
    EXPECT_EQ(text.back(), '\n');
  }
}

// ---- several threads -------------------------------------------------------------------------------------

class shared : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  watchdog watchdog_{200s};
  void SetUp() override {
    auto made = test::make_multiplexer(std::get<0>(GetParam()).c_str(), threads());
    if (!made.has_value()) GTEST_SKIP() << made.error().message();
    m_ = std::move(*made);
  }
  // Engines of threads are made with the driver that the environment names then.
  test::environment_variable const driver_{"UNIO_DRIVER", std::get<0>(GetParam()).c_str()};
  static int threads() { return std::get<1>(GetParam()); }
  std::unique_ptr<io_multiplexer> m_;
};

INSTANTIATE_TEST_SUITE_P(driver, shared,
                         ::testing::Combine(::testing::Values("uring", "epoll"), ::testing::Values(2, 3, 4)),
                         [](auto const& of) {
                           return std::get<0>(of.param) + "_" + std::to_string(std::get<1>(of.param));
                         });

TEST_P(shared, runs_operations_where_they_were_started_until_the_last_has_ended) {
  std::atomic<int> elsewhere = 0, done = 0, zeros = 0;
  std::latch started(threads());
  auto const body = [&](int index) {
    ASSERT_TRUE(m_->try_run().has_value()); // from here on this thread runs it
    std::vector<unio::anonymous_pipe> pipes;
    std::vector<unio::io_operation_connection<unio::async_read, calls>> ops(20);
    char memory[1];
    auto const me = std::this_thread::get_id();
    for (auto& op : ops) {
      pipes.push_back(test::pipe_on(m_.get()));
      op = unio::connect(unio::async_read(pipes.back().reader, unio::mutable_buffer(memory)), calls{[&, me] {
                           if (std::this_thread::get_id() != me) elsewhere.fetch_add(1);
                           done.fetch_add(1);
                         }});
      op.start();
    }
    unio::timer_handle t(std::chrono::milliseconds(10 * (index + 1)), m_.get());
    auto tick = unio::connect(unio::async_wait(t), calls{[&] {
                                for (auto& p : pipes) put(p.writer);
                              }});
    tick.start();
    started.arrive_and_wait();
    for (;;) {
      auto const r = m_->run();
      ASSERT_TRUE(r.has_value()) << r.error().message();
      if (*r == 0) break;
    }
    zeros.fetch_add(1);
    EXPECT_EQ(done.load(), threads() * 20) << "run() says 0 only when the last of all has ended";
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads(); ++i) others.emplace_back(body, i);
  body(0);
  for (std::thread& t : others) t.join();
  EXPECT_EQ(elsewhere.load(), 0);
  EXPECT_EQ(zeros.load(), threads());
}

TEST_P(shared, posted_work_is_taken_by_whoever_is_idle) {
  std::atomic<int> ran = 0, busy = 0, most_busy = 0;
  std::atomic<bool> stop = false;
  std::latch up(threads() + 1);
  test::threads runners(threads(), [&] {
    ASSERT_TRUE(m_->try_run().has_value());
    unio::timer_handle t(1h, m_.get());
    started keep{unio::async_wait(t)};
    up.arrive_and_wait();
    while (!stop.load()) ASSERT_TRUE(m_->run().has_value());
    keep.cancel();
    while (!keep.finished()) (void)m_->run();
  });
  up.arrive_and_wait();
  constexpr int items = 40;
  for (int i = 0; i < items; ++i) {
    ASSERT_TRUE(m_->post([&] {
      int const now = busy.fetch_add(1) + 1;
      for (int most = most_busy.load(); most < now && !most_busy.compare_exchange_weak(most, now);) continue;
      std::this_thread::sleep_for(2ms);
      busy.fetch_sub(1);
      ran.fetch_add(1);
    }));
  }
  while (ran.load() < items) std::this_thread::sleep_for(1ms);
  EXPECT_GT(most_busy.load(), 1) << "one thread did all of it while the others slept";
  stop.store(true);
  // A wake-up ends one run(), and it may be the run() of one that has seen `stop` already.
  std::atomic<bool> all_ended = false;
  std::thread waker([&] {
    while (!all_ended.load()) {
      m_->wake();
      (void)m_->post([] {});
      std::this_thread::sleep_for(1ms);
    }
  });
  runners.join();
  all_ended.store(true);
  waker.join();
}

TEST_P(shared, of_many_posts_none_is_lost) {
  constexpr int items = 50'000;
  std::atomic<int> ran = 0;
  std::atomic<bool> posting = true;
  test::threads runners(threads(), [&] {
    while (posting.load() || ran.load() < items) {
      ASSERT_TRUE(m_->run().has_value());
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < items; ++i) ASSERT_TRUE(m_->post([&] { ran.fetch_add(1, std::memory_order_relaxed); }));
  posting.store(false);
  runners.join();
  EXPECT_EQ(ran.load(), items);
}

TEST_P(shared, is_run_by_more_threads_than_it_was_made_for) {
  constexpr int more = 3;
  std::latch all(threads() + more);
  std::atomic<int> done = 0;
  test::threads users(threads() + more, [&] {
    EXPECT_TRUE(m_->try_run().has_value());
    all.arrive_and_wait();
    started op{unio::async_no_op(m_.get())};
    while (!op.finished()) ASSERT_TRUE(m_->run().has_value());
    EXPECT_FALSE(op.error);
    done.fetch_add(1);
  });
  users.join();
  EXPECT_EQ(done.load(), threads() + more);
  EXPECT_EQ(m_->run().value(), 0);
}

// What another thread's engine is must be seen once it is seen at all: a race, which a sanitizer finds.
TEST_P(shared, may_be_woken_while_threads_begin_to_use_it) {
  for (int round = 0; round != 50; ++round) {
    auto const m = io_multiplexer::best_available(threads()).value();
    std::atomic<int> begun = 0;
    std::atomic<bool> over = false;
    test::threads users(threads(), [&] {
      EXPECT_TRUE(m->try_run().has_value());
      begun.fetch_add(1, std::memory_order_relaxed); // no order but the multiplexer's own
      over.wait(false);
    });
    while (begun.load(std::memory_order_relaxed) != threads()) m->wake();
    over = true;
    over.notify_all();
    users.join();
  }
}

// Runs until nothing is pending, on a thread of its own.
class runs_to_the_end {
 public:
  explicit runs_to_the_end(io_multiplexer& m)
      : thread_([&m] {
          while (m.run().value() != 0) continue;
        }) {}
  ~runs_to_the_end() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_P(shared, says_that_nothing_is_pending_after_a_handle_was_closed_outside_of_run) {
  auto pipe = test::pipe_on(m_.get());
  char memory[1];
  watched op{unio::async_read(pipe.reader, unio::mutable_buffer(memory))};
  op.start();
  (void)m_->try_run();
  runs_to_the_end const other(*m_);
  EXPECT_TRUE(pipe.reader.close().has_value());
  EXPECT_TRUE(op.finished());
}

TEST_P(shared, says_that_nothing_is_pending_after_the_thread_that_closed_the_handle_has_ended) {
  std::thread([&] {
    auto pipe = test::pipe_on(m_.get());
    char memory[1];
    watched op{unio::async_read(pipe.reader, unio::mutable_buffer(memory))};
    op.start();
    (void)m_->try_run();
    EXPECT_TRUE(pipe.reader.close().has_value());
  }).join();
  EXPECT_EQ(m_->run().value(), 0);
}

TEST_P(shared, says_in_each_way_that_something_is_pending_on_another_thread) {
  std::latch is_started(1), may_end(1);
  std::thread other([&] {
    (void)m_->try_run();
    unio::timer_handle t(1h, m_.get());
    watched op{unio::async_wait(t)};
    op.start();
    (void)m_->try_run();
    is_started.count_down();
    may_end.wait();
    op.cancel();
    while (!op.finished()) (void)m_->run();
  });
  is_started.wait();
  EXPECT_LT(m_->try_run().value(), 0);
  EXPECT_LT(m_->try_run_for(1ms).value(), 0);
  EXPECT_LT(m_->complete_io().value(), 0);
  EXPECT_LT(m_->timeout_io().value(), 0);
  may_end.count_down();
  other.join();
  EXPECT_EQ(m_->complete_io().value(), 0);
}

// The last operation may end while another thread is on its way to sleep.
TEST_P(shared, says_zero_to_a_thread_that_is_about_to_sleep_when_the_last_operation_ends) {
  (void)m_->try_run();
  for (int round = 0; round != 300; ++round) {
    std::latch is_started(2);
    std::thread other([&] {
      is_started.arrive_and_wait();
      while (m_->run().value() != 0) continue;
    });
    unio::timer_handle t(std::chrono::microseconds(round % 100), m_.get());
    watched op{unio::async_wait(t)};
    op.start();
    is_started.arrive_and_wait();
    while (m_->run().value() != 0) continue;
    other.join();
  }
}

TEST_P(shared, a_wake_is_for_the_next_thread_that_would_sleep) {
  (void)m_->try_run(); // this thread has used it, and does not run it
  std::latch is_outside(1), is_woken(1);
  std::thread loop([&] {
    (void)m_->try_run();
    unio::timer_handle t(1h, m_.get());
    watched op{unio::async_wait(t)};
    op.start();
    (void)m_->try_run();
    is_outside.count_down();
    is_woken.wait();
    EXPECT_LT(m_->run().value(), 0); // it would sleep for an hour
    op.cancel();
    while (!op.finished()) (void)m_->run();
  });
  is_outside.wait();
  m_->wake();
  is_woken.count_down();
  loop.join();
}

// What the wake-up is to tell has been stored before it, so each has to be noticed.
TEST_P(shared, no_wake_is_lost_while_other_threads_post) {
  constexpr int wakes = 3000;
  std::atomic<int> asked = 0, seen = 0, may_post = 0;
  std::thread runner([&] {
    (void)m_->try_run();
    unio::timer_handle t(1h, m_.get());
    watched op{unio::async_wait(t)};
    op.start();
    while (seen.load() != wakes) {
      seen.store(asked.load());
      if (seen.load() != wakes) (void)m_->run();
    }
    op.cancel();
    while (!op.finished()) (void)m_->run();
  });
  std::thread poster([&] { // once for each wake-up, at about the same time
    for (int i = 1; i <= wakes; ++i) {
      while (may_post.load() < i) std::this_thread::yield();
      ASSERT_TRUE(m_->post([] {}));
    }
  });
  for (int i = 1; i <= wakes; ++i) {
    asked.store(i);
    may_post.store(i);
    for (int spins = i % 200; spins != 0; --spins) (void)asked.load();
    m_->wake();
    while (seen.load() != i) std::this_thread::yield();
  }
  poster.join();
  runner.join();
}

// ---- the life of a connection ----------------------------------------------------------------------------

TEST_P(on, a_connection_can_be_moved_until_it_is_started) {
  auto p = make_pipe();
  put(p.writer, 2);
  char memory[1];
  test::tally told[2];
  auto first = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)), test::tell{&told[0]});
  auto second = std::move(first);
  first = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)), test::tell{&told[1]});
  second.start();
  first.start();
  while (!first.finished() || !second.finished()) (void)m_->run();
  for (test::tally const& t : told) test::expect_ended_once(t);
  auto third = std::move(second); // finished: movable again, with its result
  EXPECT_TRUE(third.finished());
  EXPECT_EQ(third.result().value().bytes(), 1U);
}

TEST_P(on, a_connection_says_where_in_its_life_it_is) {
  auto p = make_pipe();
  char memory[1];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  EXPECT_FALSE(op.started() || op.completed() || op.finished() || op.in_flight());
  EXPECT_EQ(op.poll(), io_status::not_started);
  op.cancel(); // of one that was not started: nothing
  op.start();
  EXPECT_TRUE(op.started() && op.in_flight());
  EXPECT_FALSE(op.completed() || op.finished());
  EXPECT_EQ(op.poll(), io_status::pending);
  put(p.writer);
  while (op.poll() == io_status::pending) continue;
  EXPECT_TRUE(op.started() && op.completed() && op.finished());
  EXPECT_FALSE(op.in_flight());
  op.cancel(); // of one that has finished: nothing
  EXPECT_EQ(op.result().value().bytes(), 1U);
  op.reset();
  EXPECT_FALSE(op.started() || op.completed() || op.finished());
}

TEST_P(on, a_connection_can_be_reset_and_used_again) {
  auto p = make_pipe();
  char memory[1];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  for (int i = 0; i < 100; ++i) {
    if (i % 2 == 0) put(p.writer);
    op.start();
    if (i % 2 != 0) put(p.writer);
    while (!op.finished()) ASSERT_TRUE(m_->run().has_value());
    ASSERT_EQ(op.result().value().bytes(), 1U);
    op.reset();
  }
  EXPECT_EQ(op.values, 100);
  EXPECT_EQ(op.ends, 100);
}

TEST_P(on, a_connection_that_was_run_blocking_tells_its_receiver_the_next_time) {
  auto p = make_pipe();
  char memory[1];
  watched op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  for (bool const waits : {false, true}) {
    op.values = op.ends = 0;
    put(p.writer);
    op.run_blocking();
    EXPECT_EQ(op.result().value().bytes(), 1U);
    EXPECT_EQ(op.values + op.ends, 0);
    op.reset();
    if (!waits) put(p.writer);
    op.start();
    if (waits) put(p.writer);
    auto const end = clock_type::now() + 20s;
    while (!op.finished() && clock_type::now() < end) (void)m_->try_run();
    test::expect_ended_once(op);
    op.reset();
  }
  // A description that was run and then connected.
  async_read described(p.reader, unio::mutable_buffer(memory));
  put(p.writer, 2);
  described.run_blocking();
  described.reset();
  started connected{std::move(described)};
  (void)m_->try_run();
  test::expect_ended_once(connected);
}

TEST_P(on, a_connection_can_be_destroyed_and_restarted_by_its_own_receiver) {
  auto p = make_pipe();
  char memory[1];
  std::unique_ptr<unio::io_operation_connection<unio::async_read, calls>> op;
  int rounds = 0;
  op = std::make_unique<unio::io_operation_connection<unio::async_read, calls>>(
      unio::async_read(p.reader, unio::mutable_buffer(memory)), calls{[&] {
        if (++rounds == 5) return op.reset();
        op->io_operation::reset();
        op->start();
      }});
  op->start();
  for (int i = 0; i < 5; ++i) {
    put(p.writer);
    while (op != nullptr && rounds == i) (void)m_->run();
  }
  EXPECT_EQ(rounds, 5);
  EXPECT_EQ(op, nullptr);
  EXPECT_EQ(m_->run().value_or(-9), 0);
}

TEST_P(on, destroying_what_is_in_flight_waits_for_it_tells_nobody_and_is_counted) {
  auto p = make_pipe();
  test::tally told;
  auto memory = std::make_unique<char[]>(16);
  {
    auto op =
        unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory.get(), 16)), test::tell{&told});
    op.start();
    (void)m_->try_run();
  }
  memory.reset(); // the kernel no longer uses it
  put(p.writer);
  EXPECT_EQ(m_->counters().abandoned, 1U);
  EXPECT_EQ(m_->try_run().value(), 0);
  EXPECT_EQ(told.values + told.ends, 0);
  char c = 0;
  EXPECT_EQ(::read(p.reader.native_handle(), &c, 1), 1) << "the byte is still there";
}

// It might destroy the same.
TEST_P(on, nothing_else_runs_while_one_in_flight_is_destroyed) {
  auto destroyed = make_pipe(), other = make_pipe();
  char memory[2][1];
  int ran = 0;
  auto const runs = [&] { ++ran; };
  auto second = unio::connect(unio::async_read(other.reader, unio::mutable_buffer(memory[1])), calls{runs});
  auto t = timer(1ms);
  auto third = unio::connect(unio::async_wait(t), calls{runs});
  for (bool const is_closed : {false, true}) {
    std::optional first(unio::connect(unio::async_read(destroyed.reader, unio::mutable_buffer(memory[0])),
                                      calls{[&] { is_closed ? void(++ran) : ADD_FAILURE(); }}));
    for (unio::io_operation* const op :
         {static_cast<unio::io_operation*>(&second), static_cast<unio::io_operation*>(&third)}) {
      op->reset();
      op->start();
    }
    first->start();
    (void)m_->try_run(); // all are with the driver
    put(other.writer);
    std::this_thread::sleep_for(2ms);
    ASSERT_TRUE(m_->post(runs));
    std::thread([&] { ASSERT_TRUE(m_->post(runs)); }).join();
    m_->wake();
    ran = 0;
    if (is_closed) {
      ASSERT_TRUE(destroyed.reader.close());
    } else {
      first.reset();
    }
    EXPECT_EQ(ran, is_closed ? 1 : 0);
    ran = 0;
    auto const give_up = clock_type::now() + 10s;
    while (ran < 4 && clock_type::now() < give_up) (void)m_->try_run();
    EXPECT_EQ(ran, 4);
  }
  // A wake() is for the run() that follows.
  auto last = make_pipe();
  char more[1];
  started waits{unio::async_read(last.reader, unio::mutable_buffer(more))};
  {
    started read{unio::async_read(other.reader, unio::mutable_buffer(memory[0]))};
    (void)m_->try_run();
    m_->wake();
  }
  EXPECT_LT(m_->run().value(), 0);
}

TEST_P(on, of_a_chain_that_is_destroyed_only_members_are_notified) {
  auto p = make_pipe(), other = make_pipe();
  char memory[3][1];
  int ran = 0;
  auto second =
      unio::connect(unio::async_read(other.reader, unio::mutable_buffer(memory[2])), calls{[&] { ++ran; }});
  second.start();
  {
    auto chain = unio::connect(unio::async_link(unio::async_read(p.reader, unio::mutable_buffer(memory[0])),
                                                unio::async_read(p.reader, unio::mutable_buffer(memory[1]))),
                               calls{[] { ADD_FAILURE(); }});
    chain.start();
    (void)m_->try_run();
    put(p.writer);
    (void)m_->try_run();
    put(other.writer);
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(m_->run().value(), 1);
  EXPECT_EQ(ran, 1);
}

// What a worker has begun cannot be interrupted, and may wait for what a receiver does.
TEST_P(on, others_run_while_what_a_worker_does_is_destroyed) {
  if (GetParam() == "uring") GTEST_SKIP() << "the ring makes them";
  test::temporary_directory const directory;
  auto f = unio::file_handle::file(directory.handle(), "a", unio::handle::mode::write,
                                   unio::handle::creation::if_needed)
               .value();
  f.set_multiplexer(m_.get());
  static std::atomic<bool> has_begun, may_end;
  has_begun = may_end = false;
  test::replaced_calls calls;
  calls->fsync = calls->fdatasync = [](int) noexcept -> std::int64_t {
    has_begun = true;
    for (int i = 0; i != 10'000 && !may_end; ++i) std::this_thread::sleep_for(1ms);
    return may_end ? 0 : -EIO;
  };
  auto t = timer(1ms);
  auto later = unio::connect(unio::async_wait(t), test::calls{[] { may_end = true; }});
  {
    auto barrier = unio::connect(unio::async_barrier(f), test::calls{[] { ADD_FAILURE(); }});
    barrier.start();
    while (!has_begun) std::this_thread::yield();
    later.start();
  }
  EXPECT_TRUE(may_end);
}

TEST_P(on, a_coroutine_that_is_destroyed_cancels_what_it_awaits) {
  auto p = make_pipe();
  bool after = false;
  auto const body = [](unio::pipe_handle& reader, bool& resumed) -> test::coroutine {
    char memory[1];
    (void)co_await reader.co_read(unio::mutable_buffer(memory));
    resumed = true;
  };
  {
    test::coroutine const c = body(p.reader, after);
    (void)m_->try_run();
  }
  EXPECT_EQ(m_->counters().abandoned, 1U);
  EXPECT_EQ(m_->run().value(), 0);
  EXPECT_FALSE(after);
}

} // namespace
