// strand.hpp: one at a time, in order, on whatever executor; where dispatch continues at once; strands inside
// of strands; taking back; the end of what it runs on.

#include "coro/waiting.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <random>

namespace {

using namespace test;

static_assert(unio::is_executor<strand<unio::multiplexer_executor>>);
static_assert(unio::is_executor<strand<strand<unio::inline_executor>>>);
static_assert(sizeof(strand<unio::multiplexer_executor>) == sizeof(void*));
static_assert(std::same_as<decltype(strand{std::declval<thread_pool&>().executor()}),
                           strand<thread_pool::executor_type>>);

void run_all(io_multiplexer& m) {
  while (m.run().value() > 0) continue;
}

/// Counts without any lock, and notices when two are inside.
struct counter {
  int value = 0; // only the strand's
  std::atomic<int> inside = 0;
  bool collided = false;
  void add() {
    if (inside.fetch_add(1, std::memory_order_relaxed) != 0) collided = true;
    ++value;
    inside.fetch_sub(1, std::memory_order_relaxed);
  }
};

struct adding : unio::work {
  adding() : work(&invoke) {}
  static void invoke(unio::work& w, bool run) noexcept {
    auto& self = static_cast<adding&>(w);
    if (!run) return;
    self.to->add();
    self.done->fetch_add(1, std::memory_order_release);
  }
  counter* to = nullptr;
  std::atomic<int>* done = nullptr;
};

// ---- happy ------------------------------------------------------------------------------------------------

// An executor_ref is made of any executor, a strand of one as well.
TASK_TEST(strand, runs_on_the_executor_of_a_coroutine) {
  strand s((co_await this_coro::environment).executor);
  static_assert(std::same_as<decltype(s), strand<unio::executor_ref>>);
  auto const runs = [](strand<unio::executor_ref> const& on) -> task<bool> {
    co_return on.running_in_this_thread();
  };
  EXPECT_TRUE(co_await run_on(s, runs(s)));
  strand const copy{s};
  EXPECT_EQ(copy, s);
}

// What it does then would keep the strand from all others.
TASK_TEST(strand, is_left_by_a_coroutine_that_comes_back_from_it) {
  strand s((co_await this_coro::environment).executor);
  auto const sleeps = []() -> task<> { (void)co_await co_sleep(1ms); };
  auto const nothing = []() -> task<> { co_return; };
  co_await run_on(s, nothing());
  EXPECT_FALSE(s.running_in_this_thread());
  co_await run_on(s, sleeps());
  EXPECT_FALSE(s.running_in_this_thread());
  auto const comes_back = [&](bool& stays) -> task<> {
    co_await run_on((co_await this_coro::environment).executor, nothing());
    stays = s.running_in_this_thread();
  };
  bool stays = false;
  co_await run_on(s, comes_back(stays));
  EXPECT_TRUE(stays);
}

TEST(strand, copies_are_equal_and_two_strands_are_not) {
  auto const m = make_multiplexer();
  strand const a{m->executor()};
  strand const copy = a;
  strand b{m->executor()};
  EXPECT_EQ(a, copy);
  EXPECT_NE(a, b);
  b = a;
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.multiplexer(), m.get());
  EXPECT_EQ(a.inner_executor(), m->executor());
}

TEST(strand, runs_what_was_posted_in_its_order_and_not_inside_of_post) {
  auto const m = make_multiplexer();
  strand const s{m->executor()};
  std::vector<int> order;
  auto one = [&](int i) { return call([&order, i] { order.push_back(i); }); };
  auto a = one(1), b = one(2), c = one(3);
  s.post(a);
  s.post(b);
  s.post(c);
  EXPECT_TRUE(order.empty());
  run_all(*m);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(strand, what_is_posted_from_inside_runs_after_what_waits) {
  auto const m = make_multiplexer();
  strand const s{m->executor()};
  std::vector<int> order;
  auto last = call([&] { order.push_back(3); });
  auto first = call([&] {
    EXPECT_TRUE(s.running_in_this_thread());
    order.push_back(1);
    s.post(last);
    EXPECT_EQ(order.size(), 1u);
  });
  auto second = call([&] { order.push_back(2); });
  s.post(first);
  s.post(second);
  run_all(*m);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_FALSE(s.running_in_this_thread());
}

TEST(strand, dispatch_goes_on_at_once_inside_and_posts_outside) {
  auto const m = make_multiplexer();
  strand const s{m->executor()}, other{m->executor()};
  int done = 0;
  struct probe {
    strand<unio::multiplexer_executor> mine, other;
    int* done;
    void operator()() const {
      std::coroutine_handle<> const some = std::noop_coroutine();
      unio::resumption r(some);
      EXPECT_EQ(mine.dispatch(r), some);
      unio::resumption elsewhere(some);
      EXPECT_FALSE(other.running_in_this_thread());
      (void)other.dispatch(elsewhere);
      EXPECT_TRUE(other.withdraw(elsewhere)); // so it was posted
      ++*done;
    }
  };
  auto w = call(probe{s, other, &done});
  s.post(w);
  run_all(*m);
  EXPECT_EQ(done, 1);
}

TEST(strand, lets_its_executor_run_others_after_a_bounded_number) {
  auto const m = make_multiplexer();
  strand const s{m->executor()};
  std::vector<std::unique_ptr<adding>> many;
  counter c;
  std::atomic<int> done = 0;
  int seen = -1;
  for (int i = 0; i != 1000; ++i) {
    many.push_back(std::make_unique<adding>());
    many.back()->to = &c, many.back()->done = &done;
    s.post(*many.back());
  }
  auto other = call([&] { seen = c.value; });
  m->post(other);
  run_all(*m);
  EXPECT_EQ(c.value, 1000);
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 1000);
}

TEST(strand, outlives_its_handles_while_something_waits) {
  auto const m = make_multiplexer();
  int ran = 0;
  auto w = call([&] { ++ran; });
  {
    strand const s{m->executor()};
    s.post(w);
  }
  run_all(*m);
  EXPECT_EQ(ran, 1);
}

// ---- mutual exclusion -------------------------------------------------------------------------------------

TEST(strand, over_a_pool_of_four_threads_never_runs_two_at_once) {
  constexpr int posters = 4, each = 25'000;
  thread_pool pool(4);
  strand const s{pool.executor()};
  counter c;
  std::atomic<int> done = 0;
  std::vector<std::vector<adding>> items(posters);
  std::vector<std::thread> threads;
  for (auto& mine : items) {
    mine = std::vector<adding>(each);
    for (auto& w : mine) w.to = &c, w.done = &done;
  }
  for (auto& mine : items)
    threads.emplace_back([&] {
      for (auto& w : mine) s.post(w);
    });
  for (std::thread& t : threads) t.join();
  until(done, posters * each);
  pool.join();
  EXPECT_EQ(c.value, posters * each);
  EXPECT_FALSE(c.collided);
}

// Posts `each` numbered works to a strand, as a task that others steal.
struct numbered : unio::work {
  numbered() : work(&invoke) {}
  static void invoke(unio::work& w, bool run) noexcept {
    auto& self = static_cast<numbered&>(w);
    if (run && *self.next == self.number) ++*self.next;
    self.ran->fetch_add(1, std::memory_order_release);
  }
  int number = 0;
  int* next = nullptr; // only the strand's
  std::atomic<int>* ran = nullptr;
};
task<> posts(strand<thread_pool::executor_type> s, std::vector<numbered>& all) {
  for (numbered& w : all) {
    s.post(w);
    co_await unio::co_fork();
  }
}

TEST(strand, keeps_the_order_of_each_task_that_posts_while_they_are_stolen) {
  constexpr int tasks = 16, each = 1000;
  thread_pool pool(4);
  strand const s{pool.executor()};
  std::atomic<int> ran = 0;
  std::vector<int> next(tasks);
  std::vector<std::vector<numbered>> works(tasks);
  for (std::size_t i = 0; i != tasks; ++i) {
    works[i] = std::vector<numbered>(each);
    for (int k = 0; k != each; ++k) {
      numbered& w = works[i][static_cast<std::size_t>(k)];
      w.number = k, w.next = &next[i], w.ran = &ran;
    }
  }
  pool.post([&] {
    for (auto& mine : works) unio::async_run(pool.executor(), posts(s, mine));
  });
  until(ran, tasks * each);
  pool.join();
  EXPECT_EQ(next, std::vector<int>(tasks, each));
}

// The canary: without the strand the counter counts_destruction.
TEST(strand, the_counter_of_these_tests_notices_two_at_once) {
  thread_pool pool(2);
  counter c;
  std::atomic<int> met = 0;
  for (int i = 0; i != 2; ++i)
    pool.post([&] {
      if (c.inside.fetch_add(1) != 0) c.collided = true;
      met.fetch_add(1);
      until(met, 2);
      c.inside.fetch_sub(1);
    });
  pool.join();
  EXPECT_TRUE(c.collided);
}

task<> adds(strand<thread_pool::executor_type> s, thread_pool& pool, counter& c, int times) {
  for (int i = 0; i != times; ++i) {
    EXPECT_TRUE(s.running_in_this_thread());
    EXPECT_TRUE(pool.running_in_this_thread());
    c.add();
    if (i % 4 == 0) {
      unio::timer_handle t(std::chrono::microseconds(1));
      (void)co_await t.co_wait();
    } else {
      (co_await unio::co_no_op()).value();
    }
  }
}

TEST(strand, coroutines_on_it_share_without_a_lock_and_stay_on_it_whatever_they_await) {
  constexpr int tasks = 16, times = 100;
  thread_pool pool(4);
  strand const s{pool.executor()};
  counter c;
  for (int i = 0; i != tasks; ++i) unio::async_run(s, adds(s, pool, c, times));
  pool.join();
  EXPECT_EQ(c.value, tasks * times);
  EXPECT_FALSE(c.collided);
}

task<> reads(strand<thread_pool::executor_type> s, unio::socket_handle& from, counter& c) {
  char room[1];
  for (;;) {
    auto const got = co_await from.co_read(unio::mutable_buffer(room));
    EXPECT_TRUE(s.running_in_this_thread());
    if (!got.has_value() || got.bytes_transferred() == 0) co_return;
    c.add();
  }
}

TEST(strand, coroutines_whose_io_ends_on_other_threads_come_back_to_it) {
  constexpr int pairs = 6, bytes = 200;
  std::vector<unio::socket_pair> ends;
  for (int i = 0; i != pairs; ++i) ends.push_back(unio::socket_handle::pair().value());
  thread_pool pool(4);
  strand const s{pool.executor()};
  counter c;
  for (auto& e : ends) unio::async_run(s, reads(s, e.first, c));
  for (int i = 0; i != bytes; ++i)
    for (auto& e : ends) e.second.write(std::string_view("x")).value();
  for (auto& e : ends) e.second.close().value();
  pool.join();
  EXPECT_EQ(c.value, pairs * bytes);
  EXPECT_FALSE(c.collided);
}

// ---- strands inside of strands, and over others -----------------------------------------------------------

TEST(strand, one_inside_another_runs_in_both) {
  thread_pool pool(2);
  strand const outer{pool.executor()};
  strand<strand<thread_pool::executor_type>> const inner(outer);
  std::atomic<int> done = 0;
  auto w = call([&] {
    EXPECT_TRUE(inner.running_in_this_thread());
    EXPECT_TRUE(outer.running_in_this_thread());
    done = 1;
  });
  inner.post(w);
  until(done, 1);
  auto only_outer = call([&] {
    EXPECT_FALSE(inner.running_in_this_thread());
    EXPECT_TRUE(outer.running_in_this_thread());
    done = 2;
  });
  outer.post(only_outer);
  until(done, 2);
  EXPECT_EQ(inner.multiplexer(), &pool.multiplexer());
  pool.join();
}

TEST(strand, runs_on_when_one_inside_of_it_has_had_its_turn) {
  auto const m = make_multiplexer();
  strand const outer{m->executor()};
  strand<strand<unio::multiplexer_executor>> const inner(outer);
  std::string order;
  auto first = call([&] { order += inner.running_in_this_thread() ? 'i' : '?'; });
  auto second = call([&] {
    EXPECT_FALSE(inner.running_in_this_thread());
    order += outer.running_in_this_thread() ? 'o' : '?';
  });
  inner.post(first);
  outer.post(second);
  run_all(*m);
  EXPECT_EQ(order, "io");
}

// An executor that looks at itself when what was posted has run.
struct looks_back {
  looks_back() = default;
  looks_back(looks_back const&) noexcept {}
  looks_back& operator=(looks_back const&) = default;
  ~looks_back() { lives = false; }
  static std::coroutine_handle<> dispatch(unio::resumption& r) noexcept { return r.handle(); }
  void post(unio::work& w) const noexcept {
    w();
    EXPECT_TRUE(lives);
  }
  bool operator==(looks_back const&) const noexcept { return true; }
  bool volatile lives = true;
};

TEST(strand, keeps_its_executor_until_that_has_returned_from_post) {
  std::optional<strand<looks_back>> s{looks_back()};
  int ran = 0;
  auto w = call([&] {
    ++ran;
    s.reset();
  });
  s->post(w);
  EXPECT_EQ(ran, 1);
}

TEST(strand, two_inside_of_one_exclude_each_other) {
  thread_pool pool(4);
  strand const outer{pool.executor()};
  using nested = strand<strand<thread_pool::executor_type>>;
  nested const a(outer), b(outer);
  counter c;
  std::atomic<int> done = 0;
  std::vector<adding> items(20'000);
  for (auto& w : items) w.to = &c, w.done = &done;
  for (std::size_t i = 0; i != items.size(); ++i) (i % 2 != 0 ? a : b).post(items[i]);
  until(done, 20'000);
  pool.join();
  EXPECT_EQ(c.value, 20'000);
  EXPECT_FALSE(c.collided);
}

TEST(strand, over_the_inline_executor_runs_at_once_but_not_inside_of_itself) {
  strand const s{unio::inline_executor()};
  std::vector<int> order;
  auto second = call([&] { order.push_back(3); });
  auto first = call([&] {
    order.push_back(1);
    s.post(second);
    order.push_back(2);
  });
  s.post(first);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(strand, over_the_inline_executor_runs_a_million_works_in_constant_stack) {
  int left = 10'000'000;
  auto yields = [](int& n) -> task<> {
    for (; n != 0; --n) co_await unio::co_yield_now();
  };
  unio::async_run(strand{unio::inline_executor()}, yields(left));
  EXPECT_EQ(left, 0);
}

task<> hops(strand<thread_pool::executor_type> here, strand<thread_pool::executor_type> there, counter& c,
            counter& elsewhere) {
  auto away = [](strand<thread_pool::executor_type> s, strand<thread_pool::executor_type> from,
                 counter& count) -> task<int> {
    EXPECT_TRUE(s.running_in_this_thread());
    EXPECT_FALSE(from.running_in_this_thread());
    count.add();
    co_return 1;
  };
  for (int i = 0; i != 50; ++i) {
    EXPECT_TRUE(here.running_in_this_thread());
    c.add();
    task<int> trip = away(there, here, elsewhere);
    int const n = co_await unio::run_on(there, std::move(trip));
    EXPECT_EQ(n, 1);
    EXPECT_FALSE(there.running_in_this_thread());
  }
}

TEST(strand, run_on_goes_from_one_to_the_other_and_comes_back) {
  thread_pool pool(3);
  strand const a{pool.executor()}, b{pool.executor()};
  counter on_a, on_b;
  for (int i = 0; i != 8; ++i) unio::async_run(a, hops(a, b, on_a, on_b));
  pool.join();
  EXPECT_EQ(on_a.value, 400);
  EXPECT_EQ(on_b.value, 400);
  EXPECT_FALSE(on_a.collided || on_b.collided);
}

TEST(strand, ping_pong_between_two_keeps_a_constant_stack) {
  auto const m = make_multiplexer();
  strand const s{m->executor()};
  auto chain = [](int n) -> task<int> {
    int sum = 0;
    for (int i = 0; i != n; ++i) sum += (co_await unio::co_no_op()).has_value();
    co_return sum;
  };
  int sum = 0;
  unio::async_run(s, chain(200'000), [&](unio::task_outcome<int> r) { sum = r.value(); });
  run_all(*m);
  EXPECT_EQ(sum, 200'000);
}

// ---- errors, cancel ---------------------------------------------------------------------------------------

TEST(strand, an_exception_that_leaves_a_task_on_it_is_told_on_it) {
  thread_pool pool(2);
  strand const s{pool.executor()};
  auto fails = []() -> task<> {
    (co_await unio::co_no_op()).value();
    throw 42;
  };
  std::atomic<int> told = 0;
  unio::async_run(s, fails(), [&](unio::task_outcome<void> r) {
    EXPECT_TRUE(s.running_in_this_thread());
    EXPECT_FALSE(r.has_value());
    told = 1;
  });
  pool.join();
  EXPECT_EQ(told, 1);
}

TEST(strand, a_task_that_is_stopped_from_another_thread_resumes_on_it) {
  thread_pool pool(2);
  strand const s{pool.executor()};
  for (int round = 0; round != 100; ++round) {
    unio::stop_source stop;
    auto ends = unio::socket_handle::pair().value();
    std::atomic<int> reading = 0, ended = 0;
    auto waits = [](strand<thread_pool::executor_type> mine, unio::socket_handle& from,
                    std::atomic<int>& begun) -> task<bool> {
      char room[1];
      begun.store(1, std::memory_order_release);
      auto const got = co_await from.co_read(unio::mutable_buffer(room));
      EXPECT_TRUE(mine.running_in_this_thread());
      co_return got.error() == unio::condition::canceled;
    };
    unio::async_run(s, waits(s, ends.first, reading),
                    [&](unio::task_outcome<bool> r) {
                      EXPECT_TRUE(r.value());
                      ended.store(1, std::memory_order_release);
                    },
                    {.stop = stop.get_token()});
    if (round % 2 != 0) until(reading, 1);
    stop.request_stop();
    if (round % 2 == 0) until(reading, 1);
    until(ended, 1);
  }
  pool.join();
}

// ---- taking back, the end ---------------------------------------------------------------------------------

TEST(strand, what_is_taken_back_does_not_run_wherever_it_stands_in_the_queue) {
  std::mt19937 random(1);
  for (int round = 0; round != 1000; ++round) {
    auto const m_owner = round % 100 == 0 ? make_multiplexer() : nullptr;
    static std::unique_ptr<io_multiplexer> m;
    if (m_owner != nullptr || m == nullptr) m = make_multiplexer();
    strand const s{m->executor()};
    std::size_t const n = random() % 6;
    std::vector<int> ran, expected;
    auto one = [&](int i) { return call([&ran, i] { ran.push_back(i); }); };
    std::vector<std::unique_ptr<decltype(one(0))>> items;
    for (std::size_t i = 0; i != n; ++i) {
      items.push_back(std::make_unique<decltype(one(0))>(one(static_cast<int>(i))));
      s.post(*items.back());
    }
    auto stranger = call([] {});
    EXPECT_FALSE(s.withdraw(stranger));
    for (std::size_t i = 0; i != n; ++i) {
      if (random() % 2 != 0) {
        EXPECT_TRUE(s.withdraw(*items[i]));
        EXPECT_FALSE(s.withdraw(*items[i]));
      } else {
        expected.push_back(static_cast<int>(i));
      }
    }
    auto last = one(100);
    s.post(last);
    expected.push_back(100);
    run_all(*m);
    EXPECT_EQ(ran, expected);
    EXPECT_FALSE(s.withdraw(last)) << "it has run";
    if (HasFailure()) return;
  }
}

// While other threads post.
TEST(strand, taking_back_from_inside_races_posts) {
  constexpr int rounds = 20'000;
  thread_pool pool(2);
  strand const s{pool.executor()};
  counter c;
  std::atomic<int> done = 0;
  std::vector<adding> items(rounds);
  for (auto& w : items) w.to = &c, w.done = &done;
  struct taker : unio::work {
    explicit taker(strand<thread_pool::executor_type> e) : work(&invoke), ex(std::move(e)), victim(none) {}
    static void none(unio::work&, bool) noexcept { ADD_FAILURE() << "it was taken back"; }
    struct never : unio::work {
      explicit never(function f) : work(f) {}
    };
    static void invoke(unio::work& w, bool run) noexcept {
      auto& self = static_cast<taker&>(w);
      if (!run || self.left-- == 0) return self.finished.store(1, std::memory_order_release);
      self.ex.post(self.victim);
      EXPECT_TRUE(self.ex.withdraw(self.victim));
      self.ex.post(self);
    }
    strand<thread_pool::executor_type> ex;
    never victim;
    int left = rounds;
    std::atomic<int> finished = 0;
  } t(s);
  s.post(t);
  for (auto& w : items) s.post(w);
  until(done, rounds);
  until(t.finished, 1);
  pool.join();
  EXPECT_EQ(c.value, rounds);
}

TEST(strand, whose_executor_ends_drops_what_waits) {
  int dropped = 0, ran = 0;
  auto w = [&] { return calling([&] { ++ran; }, [&] { ++dropped; }); };
  auto a = w(), b = w();
  std::optional<strand<unio::multiplexer_executor>> s;
  {
    auto const m = make_multiplexer();
    s.emplace(m->executor());
    s->post(a);
    s->post(b);
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(dropped, 2);
  s.reset();
}

TEST(strand, whose_executor_ends_destroys_the_tasks_that_wait_for_their_turn) {
  std::atomic<int> destroyed = 0;
  auto waits = [](std::unique_ptr<counts_destruction>) -> task<> { co_return; };
  auto m = make_multiplexer();
  strand const s{m->executor()};
  auto other = make_multiplexer();
  auto away = [](unio::multiplexer_executor there, std::atomic<int>& n) -> task<> {
    counts_destruction const local(n);
    auto nothing = []() -> task<> { co_return; };
    task<> trip = nothing();
    co_await unio::run_on(there, std::move(trip));
    ADD_FAILURE() << "its executor has ended";
  };
  unio::async_run(s, away(other->executor(), destroyed)); // comes back to be dropped
  run_all(*m);
  task<> never_begun = waits(std::make_unique<counts_destruction>(destroyed));
  unio::async_run(s, std::move(never_begun));
  run_all(*other); // posts the way back to the strand
  m.reset();
  EXPECT_EQ(destroyed, 2);
}

TEST(strand, on_a_pool_that_is_destroyed_ends_the_tasks_on_it) {
  for (int round = 0; round != 30; ++round) {
    std::atomic<int> reading = 0;
    std::atomic<int> destroyed = 0; // the strand's
    auto ends = unio::socket_handle::pair().value();
    auto waits = [](unio::socket_handle& from, std::atomic<int>& n, std::atomic<int>& begun) -> task<> {
      counts_destruction const local(n);
      char room[1];
      begun.fetch_add(1, std::memory_order_release);
      (void)co_await from.co_read(unio::mutable_buffer(room));
    };
    {
      thread_pool pool(2);
      strand const s{pool.executor()};
      for (int i = 0; i != 3; ++i) unio::async_run(s, waits(ends.first, destroyed, reading));
      if (round % 2 != 0) until(reading, 3);
    }
    EXPECT_LE(destroyed, 3);
    if (round % 2 != 0) {
      EXPECT_EQ(destroyed, 3);
    }
  }
}

} // namespace
