// thread_pool.hpp: what runs where; posting from many threads; I/O on the pool; tasks that start tasks;
// stopping, joining and destroying with work queued, running and in flight; that a thread that sleeps is
// woken.

#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

class of : public ::testing::TestWithParam<int> {
 protected:
  watchdog watchdog_;
  thread_pool pool_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(thread_pool, of, ::testing::Values(1, 2, 4));

// ---- happy ------------------------------------------------------------------------------------------------

TEST_P(of, its_executors_are_equal_and_those_of_another_are_not) {
  thread_pool other(1);
  EXPECT_EQ(pool_.executor(), pool_.executor());
  EXPECT_NE(pool_.executor(), other.executor());
  EXPECT_EQ(pool_.size(), GetParam());
}

TEST_P(of, a_function_that_is_posted_runs_on_one_of_its_threads) {
  std::atomic<int> ran = 0;
  std::atomic<bool> inside = false;
  pool_.post([&] {
    inside = pool_.running_in_this_thread();
    ran = 1;
  });
  until(ran, 1);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(pool_.running_in_this_thread());
}

TEST_P(of, dispatch_posts_outside_and_goes_on_at_once_inside) {
  auto const ex = pool_.executor();
  bool at_once = false;
  std::atomic<int> done = 0;
  auto probe = test::call([&] {
    std::coroutine_handle<> const some = std::noop_coroutine();
    unio::resumption r(some);
    at_once = ex.dispatch(r) == some;
    done = 1;
  });
  pool_.post(probe);
  until(done, 1);
  EXPECT_TRUE(at_once);
}

task<int> where(thread_pool& pool, std::thread::id outside) {
  EXPECT_TRUE(pool.running_in_this_thread());
  EXPECT_NE(std::this_thread::get_id(), outside);
  (co_await unio::co_no_op()).value();
  EXPECT_TRUE(pool.running_in_this_thread());
  co_return 42;
}

TEST_P(of, a_task_runs_on_it_and_its_value_comes_back) {
  EXPECT_EQ(unio::sync_wait(pool_.executor(), where(pool_, std::this_thread::get_id())), 42);
}

task<> echo(thread_pool& pool, unio::socket_handle& s) {
  char room[16];
  for (;;) {
    auto const got = co_await s.co_read(unio::mutable_buffer(room));
    EXPECT_TRUE(pool.running_in_this_thread());
    if (!got.has_value() || got.bytes_transferred() == 0) co_return;
    (void)co_await s.co_write(unio::const_buffer(room, got.bytes_transferred()));
    EXPECT_TRUE(pool.running_in_this_thread());
  }
}

TEST_P(of, coroutines_read_and_write_on_its_threads) {
  constexpr int pairs = 8, rounds = 50;
  std::vector<unio::socket_pair> ends(pairs);
  for (auto& p : ends) p = unio::socket_handle::pair().value();
  std::atomic<int> ended = 0;
  for (auto& p : ends)
    unio::async_run(pool_.executor(), echo(pool_, p.first), [&](auto outcome) {
      EXPECT_TRUE(outcome.has_value());
      ended.fetch_add(1, std::memory_order_release);
    });
  char room[16];
  for (int i = 0; i != rounds; ++i)
    for (auto& p : ends) {
      p.second.write(std::string_view("x")).value();
      EXPECT_EQ(p.second.read(unio::mutable_buffer(room)).bytes_transferred(), 1u);
    }
  for (auto& p : ends) p.second.close().value();
  until(ended, pairs);
  pool_.join();
}

TEST_P(of, one_task_may_sleep_while_others_run) {
  std::atomic<int> n = 0;
  auto sleeper = [](std::atomic<int>& woken) -> task<> {
    unio::timer_handle t(2ms);
    (void)co_await t.co_wait();
    woken.fetch_add(1, std::memory_order_release);
  };
  for (int i = 0; i != 20; ++i) unio::async_run(pool_.executor(), sleeper(n));
  pool_.join();
  EXPECT_EQ(n, 20);
}

// ---- posting ----------------------------------------------------------------------------------------------

TEST_P(of, of_a_million_posts_of_four_threads_none_is_lost) {
  constexpr int threads = 4, each = 250'000;
  std::atomic<int> ran = 0, dropped = 0;
  std::vector<std::vector<counting_work>> items(threads);
  std::vector<std::thread> posters;
  for (auto& mine : items) {
    mine = std::vector<counting_work>(each);
    for (auto& w : mine) w.ran = &ran, w.dropped = &dropped;
  }
  for (auto& mine : items)
    posters.emplace_back([&] {
      int i = 0;
      for (auto& w : mine) {
        pool_.post(w);
        if (++i % 4096 == 0) std::this_thread::sleep_for(50us); // lets the pool fall asleep
      }
    });
  for (std::thread& t : posters) t.join();
  until(ran, threads * each);
  EXPECT_EQ(dropped, 0);
}

// One at a time, each when the pool has had time to fall asleep, or not.
TEST_P(of, a_post_to_a_pool_that_is_falling_asleep_is_run) {
  std::atomic<int> ran = 0, dropped = 0;
  counting_work w;
  w.ran = &ran;
  w.dropped = &dropped;
  for (int i = 1; i <= 20'000; ++i) {
    pool_.post(w);
    until(ran, i);
    for (int spin = 0; spin != i % 512; ++spin) asm volatile("");
  }
  EXPECT_EQ(ran, 20'000);
}

// Each work posts the next to the pool from inside, and now and then two.
struct spreading : unio::work {
  spreading() : work(&invoke) {}
  static void invoke(unio::work& w, bool) noexcept {
    auto& self = static_cast<spreading&>(w);
    std::size_t const left = self.budget->fetch_sub(1, std::memory_order_acq_rel);
    self.ran->fetch_add(1, std::memory_order_release);
    if (left > 2 && left <= self.all->size()) {
      spreading& a = (*self.all)[left - 1];
      self.pool->post(a);
    }
  }
  thread_pool* pool = nullptr;
  std::vector<spreading>* all = nullptr;
  std::atomic<std::size_t>* budget = nullptr;
  std::atomic<int>* ran = nullptr;
};

TEST_P(of, works_that_post_works_are_all_run) {
  constexpr std::size_t n = 200'000;
  std::atomic<std::size_t> budget = n;
  std::atomic<int> ran = 0;
  std::vector<spreading> all(n);
  for (spreading& s : all) s.pool = &pool_, s.all = &all, s.budget = &budget, s.ran = &ran;
  pool_.post(all[0]);
  until(ran, static_cast<int>(n - 1));
  pool_.join();
  EXPECT_EQ(ran, static_cast<int>(n - 1));
}

TEST(thread_pool, what_is_posted_runs_though_the_thread_that_posted_it_is_busy) {
  watchdog const w;
  thread_pool pool(2);
  std::atomic<int> ran = 0;
  std::atomic<bool> alone = false;
  pool.post([&] {
    pool.post([&] { ran = 1; });
    while (ran == 0) std::this_thread::yield(); // only the other thread can help
    alone = true;
  });
  pool.join();
  EXPECT_TRUE(alone);
}

TEST(thread_pool, what_waits_behind_a_work_that_takes_long_runs_though_all_others_are_busy) {
  watchdog const w;
  for (int round = 0; round != 20; ++round) {
    thread_pool pool(2);
    std::atomic<int> met = 0;
    std::atomic<bool> over = false;
    unio::work* self = nullptr;
    test::calling busy([&] { over ? void() : pool.post(*self); }, [] {});
    self = &busy;
    pool.post(busy);
    for (int i = 0; i != 2; ++i) // may both be given to one thread, which then waits for the other
      pool.post([&] {
        met.fetch_add(1);
        until(met, 2);
        over = true;
      });
    pool.join();
    EXPECT_EQ(met, 2);
  }
}

TEST(thread_pool, as_many_works_run_at_once_as_it_has_threads) {
  watchdog const w;
  thread_pool pool(4);
  std::atomic<int> inside = 0;
  for (int i = 0; i != 4; ++i)
    pool.post([&] {
      inside.fetch_add(1);
      while (inside < 4) std::this_thread::yield();
    });
  pool.join();
  EXPECT_EQ(inside, 4);
}

TEST_P(of, what_is_taken_back_does_not_run) {
  std::atomic<int> ran = 0, dropped = 0, tried = 0;
  std::vector<counting_work> items(64);
  for (auto& w : items) w.ran = &ran, w.dropped = &dropped;
  std::atomic<int> taken = 0;
  pool_.post([&] { // from a thread of the pool, before its turn ends
    for (auto& w : items) pool_.post(w);
    for (auto& w : items)
      if (pool_.executor().withdraw(w)) taken.fetch_add(1);
    tried.fetch_add(1, std::memory_order_release);
  });
  until(tried, 1);
  pool_.join();
  EXPECT_EQ(ran + taken, 64);
  EXPECT_EQ(dropped, 0);
  if (GetParam() == 1) {
    EXPECT_EQ(taken, 64);
  }
}

// By executor().post(), which is not post().
TEST_P(of, what_waits_is_taken_back_by_a_thread_that_is_none_of_its) {
  std::atomic<int> ran = 0, dropped = 0, busy = 0, posted = 0, go_on = 0;
  std::vector<counting_work> items(8);
  for (auto& w : items) w.ran = &ran, w.dropped = &dropped;
  auto const post_half = [&](std::size_t first) {
    for (std::size_t i = first; i < items.size(); i += 2) pool_.executor().post(items[i]);
  };
  for (int i = 0; i != GetParam(); ++i)
    pool_.post([&, i] {
      busy.fetch_add(1, std::memory_order_release);
      until(busy, GetParam());
      if (i == 0) post_half(0);
      posted.fetch_add(1, std::memory_order_release);
      until(go_on, 1);
    });
  until(posted, GetParam());
  post_half(1);
  for (auto& w : items) EXPECT_TRUE(pool_.executor().withdraw(w));
  go_on = 1;
  pool_.join();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(dropped, 0);
}

// It need not look again and again at what waits for the pool's only thread.
TEST(thread_pool, of_one_thread_is_helped_by_one_that_makes_a_blocking_call) {
  watchdog const w;
  thread_pool pool(1);
  std::atomic<int> ran = 0, busy = 0, go_on = 0;
  pool.post([&] {
    pool.post([&] { ran.fetch_add(1); });
    busy.fetch_add(1, std::memory_order_release);
    until(go_on, 1);
  });
  until(busy, 1);
  unio::timer_handle t(20ms, &pool.multiplexer());
  EXPECT_TRUE(t.wait().has_value());
  EXPECT_LT(pool.multiplexer().counters().turns, 1000U);
  EXPECT_EQ(ran, 1);
  go_on = 1;
  pool.join();
}

// ---- the end ----------------------------------------------------------------------------------------------

TEST_P(of, join_waits_for_what_is_queued_running_and_in_flight) {
  std::atomic<int> n = 0;
  auto chain = [](std::atomic<int>& count) -> task<> {
    for (int i = 0; i != 3; ++i) {
      unio::timer_handle t(1ms);
      (void)co_await t.co_wait();
    }
    count.fetch_add(1);
  };
  for (int i = 0; i != 10; ++i) unio::async_run(pool_.executor(), chain(n));
  for (int i = 0; i != 10; ++i)
    pool_.post([&] {
      std::this_thread::sleep_for(200us);
      pool_.post([&] { n.fetch_add(1); });
    });
  pool_.join();
  EXPECT_EQ(n, 20);
  pool_.join(); // again: nothing to wait for
}

TEST_P(of, join_of_one_that_has_nothing_to_do_returns) { pool_.join(); }

// Such a call makes the thread one that runs its multiplexer.
TEST_P(of, is_joined_by_a_thread_that_has_made_a_blocking_call_on_it) {
  auto p = test::pipe_on(&pool_.multiplexer());
  char room[1];
  EXPECT_TRUE(p.writer.write(unio::const_buffer("x", 1)).has_value());
  EXPECT_TRUE(p.reader.read(unio::mutable_buffer(room)).has_value());
  unio::timer_handle t(5ms, &pool_.multiplexer());
  started op{unio::async_wait(t)}; // this thread's, which no other one takes
  pool_.join();
  EXPECT_TRUE(op.finished());
}

TEST_P(of, is_destroyed_by_a_thread_that_has_made_a_blocking_call_on_it) {
  auto p = unio::pipe_handle::anonymous().value();
  {
    thread_pool pool(GetParam());
    p.reader.set_multiplexer(&pool.multiplexer());
    char room[1];
    EXPECT_EQ(::write(p.writer.native_handle(), "x", 1), 1);
    EXPECT_TRUE(p.reader.read(unio::mutable_buffer(room)).has_value());
  }
  p.reader.set_multiplexer(nullptr);
}

task<> reads_for_ever(unio::socket_handle& s, std::atomic<int>& reading, std::atomic<int>& canceled,
                      std::atomic<int>& destroyed) {
  test::counts_destruction const local(destroyed);
  char room[4];
  reading.fetch_add(1, std::memory_order_release);
  auto const got = co_await s.co_read(unio::mutable_buffer(room));
  if (got.error() == unio::condition::canceled || got.error() == unio::error::multiplexer_destroyed)
    canceled.fetch_add(1);
}

TEST(thread_pool, destroyed_while_tasks_read_ends_them) {
  watchdog const w;
  for (int const threads : {1, 2, 4}) {
    constexpr int n = 8;
    std::vector<unio::socket_pair> ends(n);
    for (auto& e : ends) e = unio::socket_handle::pair().value();
    std::atomic<int> reading = 0, canceled = 0, destroyed = 0;
    {
      thread_pool pool(threads);
      for (auto& e : ends)
        unio::async_run(pool.executor(), reads_for_ever(e.first, reading, canceled, destroyed));
      until(reading, n);
    }
    EXPECT_EQ(canceled, n);
    EXPECT_EQ(destroyed, n);
  }
}

task<> waits_its_turn(std::atomic<int>& destroyed) {
  test::counts_destruction const local(destroyed);
  co_await std::suspend_never();
}

TEST(thread_pool, destroyed_with_work_queued_drops_it_and_the_tasks_that_it_would_start) {
  watchdog const w;
  for (int const threads : {1, 2}) {
    std::atomic<int> ran = 0, dropped = 0, destroyed = 0, busy = 0;
    std::atomic<bool> go_on = false;
    std::vector<counting_work> items(100);
    {
      thread_pool pool(threads);
      for (int i = 0; i != threads; ++i)
        pool.post([&] {
          busy.fetch_add(1);
          while (!go_on) std::this_thread::yield();
        });
      until(busy, threads);
      for (auto& i : items) {
        i.ran = &ran, i.dropped = &dropped;
        pool.post(i);
      }
      for (int i = 0; i != 10; ++i) unio::async_run(pool.executor(), waits_its_turn(destroyed));
      pool.stop();
      go_on = true;
    }
    EXPECT_EQ(ran + dropped, 100);
    if (threads > 1) {
      EXPECT_EQ(dropped, 100);
    }
  }
}

TEST(thread_pool, posts_that_race_stop_run_or_are_dropped) {
  watchdog const w;
  for (int round = 0; round != 50; ++round)
    for (int const threads : {1, 2}) {
      std::atomic<int> ran = 0, dropped = 0;
      std::vector<counting_work> items(2000);
      for (auto& i : items) i.ran = &ran, i.dropped = &dropped;
      {
        thread_pool pool(threads);
        std::thread poster([&] {
          for (auto& i : items) pool.post(i);
        });
        pool.stop();
        poster.join();
      }
      EXPECT_EQ(ran + dropped, 2000);
    }
}

TEST(thread_pool, work_that_is_dropped_may_post) {
  watchdog const w;
  struct stubborn : unio::work {
    stubborn() : work(&invoke) {}
    static void invoke(unio::work& self, bool run) noexcept {
      auto& s = static_cast<stubborn&>(self);
      if (!run && ++s.dropped < 3) s.pool->post(s);
    }
    thread_pool* pool = nullptr;
    int dropped = 0;
  } s;
  {
    thread_pool pool(2);
    pool.join();
    s.pool = &pool;
    pool.post(s);
  }
  EXPECT_EQ(s.dropped, 3);
}

// ---- tasks that are spawned -------------------------------------------------------------------------------

TEST_P(of, a_tree_of_tasks_that_fork_is_computed) {
  for (int round = 0; round != 3; ++round) EXPECT_EQ(unio::sync_wait(pool_.executor(), fibonacci(17)), 1597);
}

// Counts how many tasks exist at a time.
struct population {
  std::atomic<int> now = 0, most = 0;
  std::atomic<int> ended = 0;
};
task<> tree(thread_pool& pool, population& p, int depth) {
  if (depth != 0) {
    for (int i = 0; i != 10; ++i) {
      int const now = p.now.fetch_add(1) + 1;
      for (int most = p.most; most < now && !p.most.compare_exchange_weak(most, now);) continue;
      unio::async_run(pool.executor(), tree(pool, p, depth - 1));
    }
  }
  p.now.fetch_sub(1);
  p.ended.fetch_add(1, std::memory_order_release);
  co_return;
}

TEST_P(of, a_tree_of_tasks_is_walked_depth_first) {
  population p;
  p.now = 1;
  unio::async_run(pool_.executor(), tree(pool_, p, 5));
  until(p.ended, 111'111);
  EXPECT_LT(p.most, 25'000); // first in, first out: all 100,000 leaves
}

// Starts itself again and again as a new task, until it is told to end.
task<> again(thread_pool& pool, std::atomic<bool> const& over, std::atomic<int>& ended) {
  if (over) {
    ended.fetch_add(1, std::memory_order_release);
  } else {
    unio::async_run(pool.executor(), again(pool, over, ended));
  }
  co_return;
}
task<> forks_for_ever(std::atomic<bool> const& over, std::atomic<int>& ended) {
  while (!over) co_await unio::co_fork();
  ended.fetch_add(1, std::memory_order_release);
}

TEST_P(of, tasks_that_start_tasks_for_ever_starve_no_other_task_no_timer_and_no_io) {
  std::atomic<bool> over = false;
  std::atomic<int> ended = 0, tasks = 0, slept = 0, read = 0;
  auto ends = unio::socket_handle::pair().value();
  auto const count = [](std::atomic<int>& n) -> task<> {
    n.fetch_add(1, std::memory_order_release);
    co_return;
  };
  auto const sleep = [](std::atomic<int>& n) -> task<> {
    for (int i = 0; i != 3; ++i) {
      unio::timer_handle t(1ms);
      (void)co_await t.co_wait();
    }
    n.fetch_add(1, std::memory_order_release);
  };
  int const threads = GetParam();
  std::atomic<int> busy = 0;
  for (int i = 0; i != threads; ++i)
    pool_.post([&] {
      // What is older than what is started for ever, and behind it in the same stack.
      for (int k = 0; k != 10; ++k) unio::async_run(pool_.executor(), count(tasks));
      unio::async_run(pool_.executor(), sleep(slept));
      unio::async_run(pool_.executor(), again(pool_, over, ended));
      unio::async_run(pool_.executor(), forks_for_ever(over, ended));
      busy.fetch_add(1, std::memory_order_release);
    });
  until(busy, threads);
  unio::async_run(pool_.executor(), [](unio::socket_handle& s, std::atomic<int>& n) -> task<> {
    char room[4];
    for (int i = 0; i != 3; ++i) (void)co_await s.co_read(unio::mutable_buffer(room));
    n.fetch_add(1, std::memory_order_release);
  }(ends.first, read));
  for (int i = 0; i != 3; ++i) {
    ends.second.write(std::string_view("x")).value();
    std::this_thread::sleep_for(1ms);
  }
  for (int k = 0; k != 10; ++k) unio::async_run(pool_.executor(), count(tasks));
  until(tasks, 10 * threads + 10);
  until(slept, threads);
  (void)ends.second.close();
  until(read, 1);
  over = true;
  until(ended, 2 * threads);
}

TEST_P(of, a_task_that_yields_lets_those_that_are_spawned_run_first) {
  std::atomic<bool> seen = false;
  auto const other = [](std::atomic<bool>& b) -> task<> {
    b = true;
    co_return;
  };
  auto const yields = [&](thread_pool& pool) -> task<> {
    unio::async_run(pool.executor(), other(seen));
    for (int i = 0; i != 10'000 && !seen; ++i) co_await unio::co_yield_now();
  };
  unio::sync_wait(pool_.executor(), yields(pool_));
  EXPECT_TRUE(seen);
}

TEST(thread_pool, what_is_spawned_runs_though_the_thread_that_spawned_it_is_busy) {
  watchdog const w;
  thread_pool pool(2);
  std::atomic<int> ran = 0;
  auto const one = [](std::atomic<int>& n) -> task<> {
    n.fetch_add(1, std::memory_order_release);
    co_return;
  };
  pool.post([&] {
    for (int i = 0; i != 100; ++i) unio::async_run(pool.executor(), one(ran));
    until(ran, 100); // only the other thread can help
  });
  pool.join();
  EXPECT_EQ(ran, 100);
}

TEST_P(of, what_is_taken_back_while_it_is_stolen_runs_or_does_not) {
  constexpr int rounds = 200, each = 64;
  std::atomic<int> ran = 0, dropped = 0, tried = 0;
  int taken = 0;
  std::vector<counting_work> items(each);
  for (auto& w : items) w.ran = &ran, w.dropped = &dropped;
  for (int round = 1; round <= rounds; ++round) {
    pool_.post([&] {
      for (auto& w : items) pool_.post(w); // which the others steal
      for (auto& w : items)
        if (pool_.executor().withdraw(w)) ++taken;
      tried.fetch_add(1, std::memory_order_release);
    });
    until(tried, round);
    until(ran, round * each - taken);
  }
  EXPECT_EQ(ran + taken, rounds * each);
  EXPECT_EQ(dropped, 0);
}

task<> holds(test::counts_destruction) { co_return; }

TEST(thread_pool, destroyed_with_tasks_that_are_spawned_destroys_them) {
  watchdog const w;
  for (int const threads : {1, 2, 4}) {
    std::atomic<int> destroyed = 0, started = 0;
    std::atomic<bool> go_on = false;
    {
      thread_pool pool(threads);
      for (int i = 0; i != threads; ++i)
        pool.post([&] {
          for (int k = 0; k != 50; ++k)
            unio::async_run(pool.executor(), holds(test::counts_destruction(destroyed)));
          started.fetch_add(1, std::memory_order_release);
          while (!go_on) std::this_thread::yield();
        });
      until(started, threads);
      pool.stop();
      go_on = true;
    }
    EXPECT_EQ(destroyed, 50 * threads);
  }
}

TEST(thread_pool_death, a_thread_of_the_pool_that_would_wait_for_itself_is_told) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        thread_pool pool(1);
        pool.post([&] { pool.join(); });
        pool.join();
      },
      "its own end");
}

TEST(thread_pool_death, no_thread_is_too_few) { EXPECT_DEATH(thread_pool(0), "at least one"); }

} // namespace
