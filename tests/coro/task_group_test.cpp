// unio/task_group.hpp: task_group.

#include "support/other_thread.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"
#include "support/work.hpp"
#include "sys/sanitizer.hpp"

namespace {

using namespace test;

task<> adds(int& to, int i) {
  (co_await co_no_op()).value();
  to += i;
}
task<> sleeps(int& stopped) {
  io_result<void> const r = co_await co_sleep(1h);
  if (r.error() == condition::canceled) ++stopped;
}
task<> ends_by(char const* what) {
  (co_await co_no_op()).value();
  throw std::runtime_error(what);
}

TEST(task_group, joins_all_that_were_started) {
  int sum = 0;
  run([](int& s) -> task<> {
    auto const me = std::this_thread::get_id();
    task_group g(co_await this_coro::environment);
    for (int i = 1; i <= 100; ++i) g.start(adds(s, i));
    EXPECT_EQ(g.running(), 100u);
    co_await g.co_join();
    EXPECT_EQ(std::this_thread::get_id(), me);
    EXPECT_EQ(g.running(), 0u);
    EXPECT_EQ(s, 5050);
    g.start(adds(s, 1)); // and again
    co_await g.co_join();
    EXPECT_EQ(s, 5051);
  }(sum));
}

TASK_TEST(task_group, starts_whatever_can_be_awaited) {
  int told = 0;
  task_group group(co_await this_coro::environment);
  group.start(co_sleep(1us));
  group.start(timeout(1us, co_sleep(1h)), [&](task_outcome<io_result<void>> const& o) {
    told += o.has_value() && o->error() == condition::timed_out ? 1 : 0;
  });
  auto const adds_to = [](int& to) -> task<> {
    (void)co_await co_no_op();
    ++to;
  };
  group.start(when_all(adds_to(told), adds_to(told)));
  co_await group.co_join();
  EXPECT_EQ(told, 3);
}

TEST(task_group, may_go_before_the_coroutine_that_joins_it) {
  int stopped = 0;
  run([](int& s) -> task<> {
    environment const& e = co_await this_coro::environment;
    task_group joiners(e);
    {
      task_group g(e);
      g.start(sleeps(s));
      joiners.start([](task_group& of) -> task<> { co_await of.co_join(); }(g));
    }
  }(stopped));
}

TEST(task_group, of_a_coroutine_that_is_destroyed_while_another_thread_stops_it) {
  constexpr int rounds = sys::is_sanitized ? 300 : 3000;
  auto const m = io_multiplexer::best_available(1).value();
  for (int i = 0; i != rounds; ++i) {
    stop_source source;
    std::atomic<bool> waits{false};
    std::thread stopper([&] {
      while (!waits) std::this_thread::yield();
      for (int spin = 0; spin != i % 50; ++spin) waits.load();
      source.request_stop();
    });
    int stopped = 0;
    // The joiner is destroyed with its group, at any moment of the stop.
    async_run(*m,
              [](int& s, std::atomic<bool>& joins) -> task<> {
                environment const& e = co_await this_coro::environment;
                task_group joiners(e);
                task_group g(e);
                g.start(sleeps(s));
                joiners.start([](task_group& of) -> task<> { co_await of.co_join(); }(g));
                joins = true;
                co_await co_yield_now();
              }(stopped, waits),
              {.stop = source.get_token()});
    while (m->try_run().value() != 0) continue;
    stopper.join();
    while (m->try_run().value() != 0) continue;
  }
}

TASK_TEST(task_group, without_tasks_is_joined_at_once) {
  task_group g(co_await this_coro::environment);
  co_await g.co_join();
  g.start([]() -> task<> { co_return; }()); // ends before start() returns
  EXPECT_EQ(g.running(), 0u);
  co_await g.co_join();
}

TASK_TEST(task_group, tells_handlers_what_tasks_came_to) {
  std::vector<std::string> told;
  auto yields = [](int i) -> task<std::unique_ptr<int>> {
    (co_await co_no_op()).value();
    if (i == 2) throw std::runtime_error("x");
    co_return std::make_unique<int>(i);
  };
  task_group g(co_await this_coro::environment);
  for (int i = 1; i <= 3; ++i)
    g.start(yields(i), [&told](task_outcome<std::unique_ptr<int>> o) {
      told.push_back(o.has_value() ? std::to_string(**o) : "exception");
    });
  co_await g.co_join(); // does not throw: the handler got it
  EXPECT_EQ(told.size(), 3u);
  EXPECT_EQ(told[1], "exception");
}

TEST(task_group, can_be_added_to_by_its_tasks) {
  int sum = 0;
  run([](int& s) -> task<> {
    task_group g(co_await this_coro::environment);
    auto more = [](task_group& group, int& to) -> task<> {
      (co_await co_no_op()).value();
      for (int i = 0; i != 10; ++i) group.start(adds(to, 1));
    };
    g.start(more(g, s));
    co_await g.co_join();
    EXPECT_EQ(s, 10);
  }(sum));
}

TASK_TEST(task_group, whose_handlers_start_tasks_that_end_at_once_does_not_nest_as_deep) {
  auto const at_once = [](int n) -> task<int> { co_return n; };
  task_group group(co_await this_coro::environment);
  int count = 0;
  std::function<void(task_outcome<int> const&)> const go_on = [&](task_outcome<int> const& last) {
    EXPECT_EQ(*last, count);
    if (++count != 100'000) group.start(at_once(count), go_on);
  };
  group.start(at_once(0), go_on);
  co_await group.co_join();
  EXPECT_EQ(count, 100'000);
}

TASK_TEST(task_group, throws_the_first_exception_and_stops_the_others) {
  int stopped = 0;
  std::string what;
  task_group g(co_await this_coro::environment);
  g.start(sleeps(stopped));
  g.start(ends_by("first"));
  g.start(ends_by("second"));
  try {
    co_await g.co_join();
  } catch (std::runtime_error const& e) {
    what = e.what();
  }
  EXPECT_EQ(what, "first");
  EXPECT_EQ(stopped, 1);
  g.start(sleeps(stopped)); // a group that was stopped stays so
  co_await g.co_join();
  EXPECT_EQ(stopped, 2);
}

TEST(task_group, stops_its_tasks_when_it_is_asked_to) {
  stop_source stop;
  run(
      [](stop_source& s) -> task<> {
        int stopped = 0;
        {
          task_group g(co_await this_coro::environment);
          for (int i = 0; i != 3; ++i) g.start(sleeps(stopped));
          EXPECT_TRUE(g.request_stop());
          EXPECT_FALSE(g.request_stop());
          co_await g.co_join();
          EXPECT_EQ(stopped, 3);
        }
        task_group g(co_await this_coro::environment);
        g.start(asks_to_stop(s));
        co_await g.co_join();
        g.start(sleeps(stopped)); // the environment's stop came while nothing ran
        co_await g.co_join();
        EXPECT_EQ(stopped, 4);
      }(stop),
      {.stop = stop.get_token()});
}

// A task that joins has a stop token of its own: not the group's.
TASK_TEST(task_group, is_stopped_through_who_joins_it) {
  int stopped = 0;
  bool ended = false;
  auto ends_slowly = [](bool& e) -> task<> {
    (void)co_await co_sleep(1h);
    for (int i = 0; i != 3; ++i) (void)co_await co_no_op(); // refused, for it was asked to stop
    e = true;
  };
  task_group g(co_await this_coro::environment);
  for (int i = 0; i != 3; ++i) g.start(sleeps(stopped));
  g.start(ends_slowly(ended));
  auto const begin = std::chrono::steady_clock::now();
  result<void> const r = co_await timeout(20ms, g.co_join());
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10min);
  EXPECT_EQ(stopped, 3);
  EXPECT_TRUE(ended) << "co_join() waits for all";
  EXPECT_EQ(g.running(), 0u);
  g.start(sleeps(stopped)); // it stays stopped
  EXPECT_FALSE((co_await g.co_join()).error()) << "nobody asked who joins now to stop";
  EXPECT_EQ(stopped, 4);
}

// Awaits co_join(), and asks the group to stop when all of its tasks have ended and the coroutine is about to
// resume: another thread may ask at that moment.
struct asks_last {
  asks_last(task_group& g, bool& f) : group(g), first(f), joins(g.co_join()) {}
  task_group& group;
  bool& first;
  task_group::join_awaitable joins;

  static bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return joins.await_suspend(h, e);
  }
  joined await_resume() {
    first = group.request_stop();
    EXPECT_FALSE(group.request_stop());
    return joins.await_resume();
  }
};

TASK_TEST(task_group, asked_to_stop_when_all_have_ended_is_stopped_by_the_time_it_is_joined) {
  int sum = 0;
  int stopped = 0;
  task_group g(co_await this_coro::environment);
  g.start(adds(sum, 1));
  bool first = false;
  (void)co_await asks_last(g, first);
  EXPECT_EQ(sum, 1);
  EXPECT_TRUE(first);
  EXPECT_TRUE(g.get_stop_token().stop_requested());
  EXPECT_EQ(g.running(), 0u);
  EXPECT_FALSE(g.request_stop());
  g.start(sleeps(stopped)); // it stays stopped
  co_await g.co_join();
  EXPECT_EQ(stopped, 1);
}

// The request and the end of the last task meet at every moment.
TEST(task_group, loses_no_request_of_another_thread_to_the_end_of_its_tasks) {
  constexpr int rounds = sys::is_sanitized ? 500 : 20'000;
  std::atomic<task_group*> to_stop{nullptr};
  std::atomic<bool> first{false};
  std::atomic<int> asked{0};
  std::thread other([&] {
    for (int i = 0; i != rounds; ++i) {
      task_group* g = nullptr;
      while ((g = to_stop.exchange(nullptr)) == nullptr) std::this_thread::yield();
      for (int spin = 0; spin != i % 100; ++spin) asked.load();
      first = g->request_stop();
      asked = i + 1;
    }
  });
  run([](auto& target, auto& was_first, auto& answers) -> task<> {
    for (int i = 0; i != rounds; ++i) {
      task_group g(co_await this_coro::environment);
      event e;
      g.start([](event& until) -> task<> { (void)co_await until.co_wait(); }(e));
      target = &g;
      e.set();
      (void)co_await g.co_join();
      while (answers != i + 1) std::this_thread::yield();
      EXPECT_TRUE(was_first);
      EXPECT_TRUE(g.get_stop_token().stop_requested());
    }
  }(to_stop, first, asked));
  other.join();
}

TASK_TEST(task_group, that_is_joined_in_time_is_not_stopped) {
  int sum = 0;
  task_group g(co_await this_coro::environment);
  for (int i = 1; i <= 3; ++i) g.start(adds(sum, i));
  result<void> const r = co_await timeout(1h, g.co_join());
  EXPECT_TRUE(r.has_value());
  EXPECT_EQ(sum, 6);
  EXPECT_FALSE(g.get_stop_token().stop_requested());
}

TASK_TEST(task_group, joined_with_the_stop_requested_is_stopped_at_once) {
  int stopped = 0;
  task_group g(co_await this_coro::environment);
  g.start(sleeps(stopped));
  result<void> const r = co_await timeout(0s, g.co_join());
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(stopped, 1);
  result<void> const nothing_to_wait_for = co_await timeout(0s, g.co_join());
  EXPECT_TRUE(nothing_to_wait_for.has_value());
}

TASK_TEST(task_group, loses_to_what_succeeds_before_it_is_joined) {
  int stopped = 0;
  task_group g(co_await this_coro::environment);
  g.start(sleeps(stopped));
  auto const r = co_await when_any(g.co_join(), co_sleep(1ms));
  EXPECT_EQ(r.index, 1u);
  EXPECT_EQ(std::get<0>(r.outcomes)->error(), condition::canceled);
  EXPECT_EQ(stopped, 1);
}

TEST(task_group, says_that_who_joined_it_was_stopped) {
  stop_source stop;
  run(
      [](stop_source& s) -> task<> {
        int stopped = 0;
        task_group g(co_await this_coro::environment);
        g.start(sleeps(stopped));
        g.start(asks_to_stop(s));
        joined const j = co_await g.co_join();
        EXPECT_EQ(j.error(), condition::canceled);
        EXPECT_EQ(stopped, 1);
      }(stop),
      {.stop = stop.get_token()});
}

// Its tasks are asked to stop, end later, and do not resume what is destroyed. Another may join it.
TEST(task_group, outlives_a_coroutine_that_was_destroyed_while_it_joined) {
  int stopped = 0;
  run([](int& s) -> task<> {
    task_group g(co_await this_coro::environment);
    for (int i = 0; i != 3; ++i) g.start(sleeps(s));
    {
      task_group joiners(co_await this_coro::environment);
      auto joins = [](task_group& of) -> task<> { co_await of.co_join(); };
      joiners.start(joins(g));
      // Not joined: asks its task to stop, and destroys it.
    }
    EXPECT_EQ(g.running(), 3u);
    for (int i = 0; i != 10; ++i) (void)co_await co_sleep(1ms);
    EXPECT_EQ(g.running(), 0u);
    EXPECT_EQ(s, 3);
    co_await g.co_join();
  }(stopped));
  EXPECT_EQ(stopped, 3);
}

// The stop comes from another thread, while tasks end on several.
TEST(task_group, is_stopped_through_who_joins_it_from_any_thread) {
  constexpr int threads = 3;
  auto const m = io_multiplexer::best_available(threads).value();
  std::atomic<bool> over{false};
  std::atomic<int> ended{0};
  auto body = [](std::atomic<bool>& end, std::atomic<int>& n) -> task<> {
    for (int round = 0; round != 200; ++round) {
      task_group g(co_await this_coro::environment);
      auto one = [](std::atomic<int>& to, int i) -> task<> {
        (void)co_await co_sleep(i % 2 == 0 ? deadline(50us) : deadline(1h));
        ++to;
      };
      for (int i = 0; i != 8; ++i) g.start(one(n, i));
      result<void> const r = co_await timeout(std::chrono::microseconds(round), g.co_join());
      EXPECT_EQ(r.error(), condition::timed_out);
      EXPECT_EQ(g.running(), 0u);
    }
    end = true;
  };
  async_run(*m, body(over, ended));
  test::threads pool(threads, [&] {
    while (!over) (void)m->try_run_for(10ms);
  });
  pool.join();
  EXPECT_EQ(ended, 200 * 8);
}

TEST(task_group, destroyed_with_tasks_destroys_them) {
  std::atomic<int> alive = 0;
  int told = 0;
  run([](std::atomic<int>& a, int& t) -> task<> {
    auto holds = [](std::atomic<int>& n) -> task<> {
      test::counted const here(n);
      (void)co_await co_sleep(1h);
    };
    {
      task_group g(co_await this_coro::environment);
      for (int i = 0; i != 5; ++i) g.start(holds(a));
      g.start(holds(a), [&t](task_outcome<void>) { ++t; });
      EXPECT_EQ(a, 6);
      // Not joined.
    }
    EXPECT_EQ(a, 0);
    bool thrown = false;
    try {
      task_group g(co_await this_coro::environment);
      g.start(holds(a));
      throw std::runtime_error("left by an exception");
    } catch (std::runtime_error const&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(a, 0);
  }(alive, told));
  EXPECT_EQ(alive, 0);
}

TASK_TEST(task_group, some_of_whose_tasks_have_ended_destroys_the_others) {
  std::atomic<int> alive = 0;
  int sum = 0;
  auto const holds = [](std::atomic<int>& n) -> task<> {
    test::counted const here(n);
    (void)co_await co_sleep(1h);
  };
  for (unsigned which = 0; which != 64; ++which) { // those with a bit end first, in the order of the bits
    task_group g(co_await this_coro::environment);
    auto const nothing = [](task_outcome<void> const&) {};
    for (unsigned i = 0; i != 6; ++i) {
      if ((which >> i & 1) == 0) {
        g.start(holds(alive));
      } else if (i % 2 == 0) {
        g.start(adds(sum, 1));
      } else {
        g.start(adds(sum, 1), nothing);
      }
    }
    auto const left = static_cast<std::size_t>(6 - std::popcount(which));
    while (g.running() != left) (void)co_await co_no_op();
    EXPECT_EQ(alive, static_cast<int>(left));
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(sum, 64 * 3);
}

TEST(task_group, listens_to_no_stop_when_it_has_gone) {
  stop_source stop; // ends with nothing attached: see its destructor
  run(
      []() -> task<> {
        environment const& e = co_await this_coro::environment;
        int n = 0;
        task_group const empty(e);
        task_group joined(e);
        joined.start(adds(n, 1));
        co_await joined.co_join();
        task_group left(e);
        left.start(sleeps(n));
        EXPECT_EQ(n, 1);
      }(),
      {.stop = stop.get_token()});
}

// To destroy one of them drives the multiplexer, on which others end.
TASK_TEST(task_group, destroyed_with_tasks_tells_no_handler_of_those_that_end_meanwhile) {
  other_thread other;
  auto const takes_long = []() -> task<> {
    std::this_thread::sleep_for(5ms);
    co_return;
  };
  auto const locks = [](async_mutex& m) -> task<> { (void)co_await m.co_lock(); };
  async_mutex held;
  async_mutex::guard const mine = held.try_lock();
  int told = 0, stopped = 0;
  {
    task_group g(co_await this_coro::environment);
    auto const tell = [&told](task_outcome<void> const&) { ++told; };
    g.start(sleeps(stopped), tell);
    g.start(locks(held), tell);
    g.start(run_on(other.executor(), takes_long()), tell);
  }
  EXPECT_EQ(told, 0);
}

// Destroys a group inside of what that calls. Another one takes its place, which notices whatever the first
// does after its end.
struct replaced {
  environment const& with;
  std::optional<task_group> group{};
  int times = 0;
  explicit replaced(environment const& e) : with(e) { group.emplace(e); }
  void replace() {
    group.reset();
    group.emplace(with);
    ++times;
  }
};

TASK_TEST(task_group, may_be_destroyed_by_a_handler) {
  int sum = 0, stopped = 0;
  replaced r(co_await this_coro::environment);
  auto const tell = [&r](task_outcome<void> const&) { r.replace(); };
  r.group->start(sleeps(stopped));
  r.group->start(adds(sum, 1), tell);
  while (r.times == 0) (void)co_await co_no_op();
  EXPECT_EQ(r.group->running(), 0u);
  r.group->start([]() -> task<> { co_return; }(), tell); // ends before start() returns
  EXPECT_EQ(r.times, 2);
  EXPECT_EQ(r.group->running(), 0u);
  r.group->start(adds(sum, 1));
  co_await r.group->co_join();
  EXPECT_EQ(sum, 2);
}

TASK_TEST(task_group, destroyed_by_a_handler_resumes_no_coroutine_that_joins_it) {
  int sum = 0;
  bool has_joined = false;
  environment const& e = co_await this_coro::environment;
  replaced r(e);
  task_group joiners(e);
  r.group->start(adds(sum, 1), [&r](task_outcome<void> const&) { r.replace(); });
  joiners.start([](task_group& of, bool& joined) -> task<> {
    co_await of.co_join();
    joined = true;
  }(*r.group, has_joined));
  for (int i = 0; i != 10; ++i) (void)co_await co_no_op();
  EXPECT_EQ(r.times, 1);
  EXPECT_EQ(r.group->running(), 0u);
  EXPECT_FALSE(has_joined);
}

TASK_TEST(task_group, may_go_with_the_last_task_that_owns_it) {
  int sum = 0;
  replaced r(co_await this_coro::environment);
  auto const owns = [](std::shared_ptr<task_group>, int& to, bool throws) -> task<> {
    (co_await co_no_op()).value();
    ++to;
    if (throws) throw std::runtime_error("lost with the group");
  };
  for (bool const throws : {false, true}) {
    std::shared_ptr<task_group> owner(&*r.group, [&r](task_group*) { r.replace(); });
    owner->start(owns(owner, sum, throws));
    owner->start(owns(owner, sum, throws), [](task_outcome<void> const&) {});
    owner.reset();
    int const before = r.times;
    while (r.times == before) (void)co_await co_no_op();
    EXPECT_EQ(r.group->running(), 0u);
    EXPECT_FALSE(r.group->get_stop_token().stop_requested());
  }
  co_await r.group->co_join();
  EXPECT_EQ(sum, 4);
}

TEST(task_group, whose_multiplexer_ends_is_destroyed_with_its_tasks) {
  std::atomic<int> alive = 0;
  {
    auto m = io_multiplexer::best_available(1).value();
    async_run(*m, [](std::atomic<int>& a) -> task<> {
      auto holds = [](std::atomic<int>& n) -> task<> {
        test::counted const here(n);
        (void)co_await co_sleep(1h);
      };
      task_group g(co_await this_coro::environment);
      for (int i = 0; i != 5; ++i) g.start(holds(a));
      co_await g.co_join();
    }(alive));
    for (int i = 0; i != 3; ++i) (void)m->try_run();
    EXPECT_EQ(alive, 5);
  }
  EXPECT_EQ(alive, 0);
}

TEST(task_group, is_shared_by_the_threads_of_a_multiplexer) {
  constexpr int threads = 3, tasks = 50;
  auto const m = io_multiplexer::best_available(threads).value();
  std::atomic<int> ran{0};
  std::atomic<bool> joined{false};
  auto body = [](std::atomic<int>& n, std::atomic<bool>& end) -> task<> {
    for (int round = 0; round != 20; ++round) {
      task_group g(co_await this_coro::environment);
      auto one = [](std::atomic<int>& to) -> task<> {
        (void)co_await co_sleep(10us);
        ++to;
      };
      for (int i = 0; i != tasks; ++i) g.start(one(n));
      if (round % 2 == 1) g.request_stop();
      co_await g.co_join();
    }
    end = true;
  };
  async_run(*m, body(ran, joined));
  test::threads pool(threads, [&] {
    while (!joined) (void)m->try_run_for(10ms);
  });
  pool.join();
  EXPECT_EQ(ran, 20 * tasks);
}

TEST(task_group, death_of_who_joins_it_twice_at_once_or_elsewhere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const joins = [](task_group& g) -> task<> { co_await g.co_join(); };
  auto const joins_twice = [&](int tasks) -> task<> {
    int stopped = 0;
    task_group g(co_await this_coro::environment);
    for (int i = 0; i != tasks; ++i) g.start(sleeps(stopped));
    co_await when_all(joins(g), joins(g));
  };
  for (int const tasks : {1, 2}) EXPECT_DEATH(run(joins_twice(tasks)), "joined by two coroutines");
  auto const joins_elsewhere = [&]() -> task<> {
    int stopped = 0;
    task_group g(co_await this_coro::environment);
    g.start(sleeps(stopped));
    co_await run_on(inline_executor(), joins(g));
  };
  EXPECT_DEATH(run(joins_elsewhere()), "joined on another executor");
}

} // namespace
