// task.hpp: co_yield_now(), co_fork(), and that awaits which are ready at once give others a turn.

#include "coro/waiting.hpp"
#include "support/test.hpp"

#include <unistd.h>

namespace {

using namespace test;

// ---- co_yield_now -----------------------------------------------------------------------------------------

TEST(co_yield_now, lets_the_others_go_on_first) {
  auto const m = make_multiplexer();
  std::string told;
  auto body = [](std::string& to, char name) -> task<> {
    for (int i = 0; i != 3; ++i) {
      to += name;
      co_await co_yield_now();
    }
  };
  for (char const name : {'a', 'b', 'c'}) unio::async_run(*m, body(told, name));
  run_posted(*m);
  EXPECT_EQ(told, "abcabcabc");
}

TEST(co_yield_now, goes_on_although_a_stop_was_requested) {
  auto const m = make_multiplexer();
  unio::stop_source stop;
  stop.request_stop();
  auto body = []() -> task<int> {
    co_await co_yield_now();
    co_return 1;
  };
  EXPECT_EQ(unio::run(*m, body(), {.stop = stop.get_token()}), 1);
}

// co_yield_now or co_fork.
template <class Requeue> void expect_nothing_of_one_that_is_destroyed_while_it_is_queued(Requeue requeue) {
  auto const m = make_multiplexer();
  bool went_on = false;
  auto body = [](Requeue again, bool& on) -> task<> {
    co_await again();
    on = true;
  };
  chain c(*m, body(requeue, went_on));
  c.start();
  c.destroy();
  run_posted(*m);
  EXPECT_FALSE(went_on);
}

template <class Requeue> void expect_nothing_on_an_executor_without_a_queue(Requeue requeue) {
  int n = 0;
  auto body = [](Requeue again, int& count) -> task<> {
    for (; count != 100'000; ++count) co_await again(); // constant stack
  };
  unio::sync_wait(unio::inline_executor(), body(requeue, n));
  EXPECT_EQ(n, 100'000);
}

TEST(co_yield_now, of_a_coroutine_that_is_destroyed_while_it_is_queued_leaves_nothing) {
  expect_nothing_of_one_that_is_destroyed_while_it_is_queued([] { return co_yield_now(); });
}

TEST(co_yield_now, does_nothing_on_an_executor_without_a_queue) {
  expect_nothing_on_an_executor_without_a_queue([] { return co_yield_now(); });
}

TEST(co_yield_now, works_on_pools_and_strands) {
  unio::thread_pool pool(2);
  auto const body = [](int n) -> task<int> {
    int done = 0;
    for (; done != n; ++done) co_await co_yield_now();
    co_return done;
  };
  EXPECT_EQ(unio::sync_wait(pool.executor(), body(1000)), 1000);
  unio::strand one(pool.executor());
  EXPECT_EQ(unio::sync_wait(one, body(1000)), 1000);
}

// ---- co_fork ----------------------------------------------------------------------------------------------

TEST(co_fork, lets_the_starter_go_on_first) {
  auto const m = make_multiplexer();
  std::string told;
  auto child = [](std::string& to, char name) -> task<> {
    co_await co_fork();
    to += name;
  };
  auto body = [&]() -> task<> {
    auto const tell = [&]() -> task<> {
      told += '!';
      co_return;
    };
    co_await unio::when_all(child(told, 'a'), child(told, 'b'), tell());
  };
  unio::run(*m, body());
  EXPECT_EQ(told, "!ab");
}

TEST(co_fork, of_a_coroutine_that_is_destroyed_while_it_is_queued_leaves_nothing) {
  expect_nothing_of_one_that_is_destroyed_while_it_is_queued([] { return co_fork(); });
}

TEST(co_fork, does_nothing_on_an_executor_without_a_queue) {
  expect_nothing_on_an_executor_without_a_queue([] { return co_fork(); });
}

TEST(co_fork, on_a_strand_keeps_the_order) {
  unio::thread_pool pool(2);
  unio::strand one(pool.executor());
  std::string told;
  auto child = [](std::string& to, char name) -> task<> {
    co_await co_fork();
    to += name;
  };
  auto body = [&]() -> task<> {
    co_await unio::when_all(child(told, 'a'), child(told, 'b'), child(told, 'c'));
  };
  for (int i = 0; i != 100; ++i) unio::sync_wait(one, body());
  std::string all;
  for (int i = 0; i != 100; ++i) all += "abc";
  EXPECT_EQ(told, all);
}

// ---- awaits that are ready at once ------------------------------------------------------------------------

// Counts how often it had a turn until `stop`.
task<> takes_turns(int& turns, bool const& stop) {
  while (!stop) {
    ++turns;
    co_await co_yield_now();
  }
}

// Runs `busy`, which awaits `n` times what is always ready, beside one that takes turns.
template <class Busy> void expect_turns(int n, Busy busy) {
  auto const m = make_multiplexer();
  int turns = 0;
  bool stop = false;
  auto both = [](Busy& b, int& count, bool& end) -> task<> {
    unio::environment const& e = co_await unio::this_coro::environment;
    unio::async_run(*e.multiplexer, takes_turns(count, end));
    co_await b();
    end = true;
  };
  unio::run(*m, both(busy, turns, stop));
  run_posted(*m);
  EXPECT_GE(turns, n / 64 - 1) << "nobody else had a turn";
  EXPECT_LE(turns, n / 16) << "far more turns than one for 64 awaits";
}

constexpr int many = 10'000;

TEST(turns, a_channel_with_many_values_gives_others_a_turn) {
  unio::channel<int> values(many);
  for (int i = 0; i != many; ++i) ASSERT_TRUE(values.try_send(i).has_value());
  values.close();
  int next = 0;
  expect_turns(many, [&]() -> task<> {
    while (auto v = co_await values.co_receive()) EXPECT_EQ(*v, next++);
  });
  EXPECT_EQ(next, many) << "each arrives once, in order";
}

TEST(turns, sending_to_a_channel_with_room_gives_others_a_turn) {
  unio::channel<int> values(many);
  expect_turns(many, [&]() -> task<> {
    for (int i = 0; i != many; ++i) EXPECT_TRUE((co_await values.co_send(int(i))).has_value());
  });
  for (int i = 0; i != many; ++i) ASSERT_EQ(values.try_receive().value(), i);
}

TEST(turns, a_closed_channel_is_told_of_in_every_turn) {
  unio::channel<int> values(1);
  values.close();
  expect_turns(many, [&]() -> task<> {
    for (int i = 0; i != many; ++i) {
      EXPECT_EQ((co_await values.co_send(1)).error(), std::errc::broken_pipe);
      auto const got = co_await values.co_receive();
      EXPECT_EQ(got.error(), unio::condition::end_of_stream);
    }
  });
}

TEST(turns, a_mutex_that_is_free_gives_others_a_turn) {
  unio::async_mutex mutex;
  expect_turns(many, [&]() -> task<> {
    for (int i = 0; i != many; ++i) {
      auto const held = co_await mutex.co_lock();
      EXPECT_TRUE(held.has_value());
    }
  });
  EXPECT_TRUE(static_cast<bool>(mutex.try_lock()));
}

TEST(turns, permits_events_and_latches_give_others_a_turn) {
  unio::semaphore permits(1);
  unio::event set(true);
  unio::latch zero(0);
  expect_turns(3 * many, [&]() -> task<> {
    for (int i = 0; i != many; ++i) {
      EXPECT_TRUE((co_await permits.co_acquire()).has_value());
      permits.release();
      EXPECT_TRUE((co_await set.co_wait()).has_value());
      EXPECT_TRUE((co_await zero.co_wait()).has_value());
    }
  });
  EXPECT_TRUE(permits.try_acquire());
}

TEST(turns, a_rendezvous_that_one_takes_part_in_gives_others_a_turn) {
  int completed = 0;
  auto completes = [&]() noexcept { ++completed; };
  unio::rendezvous<decltype(completes)> alone(1, completes);
  expect_turns(many, [&]() -> task<> {
    for (int i = 1; i <= many; ++i) {
      EXPECT_TRUE((co_await alone.co_arrive_and_wait()).has_value());
      EXPECT_EQ(completed, i);
    }
  });
}

TEST(turns, lines_that_were_read_ahead_give_others_a_turn) {
  auto p = unio::pipe_handle::anonymous().value();
  std::string text;
  for (int i = 0; i != many; ++i) text += std::to_string(i % 10) + "\n";
  ASSERT_EQ(::write(p.writer.native_handle(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  p.writer = {};
  int n = 0;
  expect_turns(many, [&]() -> task<> {
    auto lines = unio::lines(p.reader);
    while (auto line = co_await lines.co_next()) EXPECT_EQ(*line, std::to_string(n++ % 10));
  });
  EXPECT_EQ(n, many) << "each line once, in order";
}

TEST(turns, awaits_of_children_count_as_well) {
  unio::channel<int> values(many);
  for (int i = 0; i != many; ++i) ASSERT_TRUE(values.try_send(i).has_value());
  values.close();
  int next = 0;
  expect_turns(many, [&]() -> task<> {
    for (;;) {
      auto const v = co_await unio::timeout(1h, values.co_receive());
      if (!v) break;
      EXPECT_EQ(*v, next++);
    }
  });
  EXPECT_EQ(next, many);
}

TEST(turns, a_loop_that_starts_tasks_gives_them_turns) {
  unio::channel<int> values(many);
  for (int i = 0; i != many; ++i) ASSERT_TRUE(values.try_send(i).has_value());
  values.close();
  expect_turns(many, [&]() -> task<> {
    unio::task_group group(co_await unio::this_coro::environment);
    auto const nothing = [](int) -> task<> { co_return; };
    while (auto v = co_await values.co_receive()) group.start(nothing(*v));
    co_await group.co_join();
  });
}

TEST(turns, what_is_received_in_a_turn_of_its_own_is_not_lost_with_its_coroutine) {
  auto const m = make_multiplexer();
  unio::channel<int> values(200);
  for (int i = 0; i != 200; ++i) ASSERT_TRUE(values.try_send(i).has_value());
  int received = 0;
  auto body = [](unio::channel<int>& c, int& count) -> task<> {
    while (auto v = co_await c.co_receive()) EXPECT_EQ(*v, count++);
  };
  chain c(*m, body(values, received));
  c.start();
  ASSERT_LT(received, 200) << "it had no turn to wait for";
  c.destroy(); // while it is queued
  for (int i = received; i != 200; ++i) EXPECT_EQ(values.try_receive().value(), i);
}

TEST(turns, permits_that_are_granted_in_a_turn_of_its_own_are_not_lost_with_its_coroutine) {
  auto const m = make_multiplexer();
  unio::semaphore permits(100);
  int taken = 0;
  auto body = [](unio::semaphore& s, int& count) -> task<> {
    for (;;) {
      auto const permit = co_await s.co_acquire();
      if (!permit.has_value()) co_return;
      ++count;
    }
  };
  chain c(*m, body(permits, taken));
  c.start();
  ASSERT_LT(taken, 100);
  c.destroy();
  for (int i = taken; i != 100; ++i) EXPECT_TRUE(permits.try_acquire());
  EXPECT_FALSE(permits.try_acquire());
}

TEST(turns, a_stop_that_comes_while_it_is_queued_takes_nothing_that_it_was_given) {
  auto const m = make_multiplexer();
  unio::semaphore permits(100);
  unio::stop_source stop;
  int taken = 0;
  std::error_code why;
  auto body = [](unio::semaphore& s, int& count, std::error_code& end) -> task<> {
    for (;;) {
      auto const r = co_await s.co_acquire();
      if (!r) {
        end = r.error();
        co_return;
      }
      ++count;
    }
  };
  chain c(*m, body(permits, taken, why), stop.get_token());
  c.start();
  ASSERT_LT(taken, 100);
  stop.request_stop();
  run_posted(*m);
  EXPECT_TRUE(c.ended());
  EXPECT_EQ(why, unio::condition::canceled);
  int left = 0;
  while (permits.try_acquire()) ++left;
  EXPECT_EQ(taken + left, 100);
}

} // namespace
