// Mutexes, semaphores, events, latches and rendezvous: who waits, in which order they go on and where, what a
// stop and a destruction leave behind. On one thread, and between several.

#include "coro/waiting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// ---- tasks that wait and say what became of it ------------------------------------------------------------

struct told {
  std::string order; // a letter for each that was resumed; a small one if it was cancelled
  void add(char who, bool granted) { order += granted ? who : static_cast<char>(who - 'A' + 'a'); }
};

void expect_canceled_or_granted(result<void> const& r) {
  if (!r.has_value()) {
    EXPECT_EQ(r.error(), condition::canceled);
    EXPECT_EQ(r.error(), std::error_code(ECANCELED, std::system_category()));
  }
}

template <class Wait> task<> waits(Wait wait, told& t, char who) {
  unio::environment const& e = co_await unio::this_coro::environment;
  result<void> const r = co_await wait();
  EXPECT_TRUE(is_at_home(e));
  expect_canceled_or_granted(r);
  t.add(who, r.has_value());
}

task<> holds(async_mutex& m, told& t, char who, async_mutex::guard& kept) {
  unio::environment const& e = co_await unio::this_coro::environment;
  result<async_mutex::guard> r = co_await m.co_lock();
  EXPECT_TRUE(is_at_home(e));
  if (!r.has_value()) {
    EXPECT_EQ(r.error(), condition::canceled);
  }
  t.add(who, r.has_value());
  if (r.has_value()) kept = std::move(*r);
}

struct one_thread : ::testing::Test {
  std::unique_ptr<io_multiplexer> m = make_multiplexer();
  told t;
  void SetUp() override { (void)m->try_run().value(); } // this thread runs it
  void run() { run_posted(*m); }
};
using contended_mutex = one_thread;
using contended_semaphore = one_thread;
using contended_auto_reset_event = one_thread;
using contended_event = one_thread;
using contended_latch = one_thread;
using contended_rendezvous = one_thread;

// ---- async_mutex ------------------------------------------------------------------------------------------

TEST(async_mutex, is_held_by_one_until_its_guard_ends) {
  async_mutex m;
  {
    async_mutex::guard const g = m.try_lock();
    EXPECT_TRUE(g);
    EXPECT_FALSE(m.try_lock());
  }
  EXPECT_TRUE(m.try_lock());
}

TEST(async_mutex, guards_hand_on_what_they_hold) {
  async_mutex m, n;
  async_mutex::guard a = m.try_lock();
  async_mutex::guard b = std::move(a);
  EXPECT_FALSE(a); // NOLINT: what a move leaves is part of the contract
  EXPECT_TRUE(b);
  a = n.try_lock();
  b = std::move(a); // unlocks m
  EXPECT_TRUE(m.try_lock());
  EXPECT_FALSE(n.try_lock());
  b.unlock();
  EXPECT_FALSE(b);
  EXPECT_TRUE(n.try_lock());
  m.try_lock().release();
  EXPECT_FALSE(m.try_lock());
  m.unlock();
  EXPECT_TRUE(m.try_lock());
}

TEST_F(contended_mutex, does_not_suspend_who_finds_it_free) {
  async_mutex mutex;
  async_mutex::guard g;
  chain a(*m, holds(mutex, t, 'A', g));
  a.start();
  EXPECT_TRUE(a.ended());
  EXPECT_EQ(t.order, "A");
}

TEST_F(contended_mutex, goes_to_those_who_wait_in_the_order_in_which_they_came) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock();
  chain a(*m, holds(mutex, t, 'A', g)), b(*m, holds(mutex, t, 'B', g)), c(*m, holds(mutex, t, 'C', g));
  a.start(), b.start(), c.start();
  EXPECT_EQ(t.order, "");
  for (char const* expected : {"A", "AB", "ABC"}) {
    g.unlock();
    EXPECT_FALSE(mutex.try_lock()) << "overtook those who wait";
    run();
    EXPECT_EQ(t.order, expected);
  }
  EXPECT_FALSE(mutex.try_lock());
  g.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

TEST_F(contended_mutex, never_resumes_inside_unlock) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  chain a(*m, holds(mutex, t, 'A', h));
  a.start();
  g.unlock();
  EXPECT_FALSE(a.ended());
  run();
  EXPECT_TRUE(a.ended());
}

TEST_F(contended_mutex, is_not_tried_after_a_stop) {
  async_mutex mutex;
  async_mutex::guard g;
  stop_source stop;
  stop.request_stop();
  chain a(*m, holds(mutex, t, 'A', g), stop.get_token());
  a.start();
  EXPECT_TRUE(a.ended());
  EXPECT_EQ(t.order, "a");
  EXPECT_TRUE(mutex.try_lock());
}

TEST_F(contended_mutex, passes_by_who_was_stopped) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  stop_source stop;
  chain a(*m, holds(mutex, t, 'A', h), stop.get_token()), b(*m, holds(mutex, t, 'B', h));
  a.start(), b.start();
  stop.request_stop();
  EXPECT_EQ(t.order, "") << "resumed inside the stop";
  run();
  EXPECT_EQ(t.order, "a");
  g.unlock();
  run();
  EXPECT_EQ(t.order, "aB");
}

TEST_F(contended_mutex, handed_over_before_the_stop_is_held) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  stop_source stop;
  chain a(*m, holds(mutex, t, 'A', h), stop.get_token());
  a.start();
  g.unlock();
  stop.request_stop();
  run();
  EXPECT_EQ(t.order, "A");
  EXPECT_TRUE(h);
}

TEST_F(contended_mutex, forgets_a_waiter_that_is_destroyed) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  stop_source stop;
  chain a(*m, holds(mutex, t, 'A', h), stop.get_token()), b(*m, holds(mutex, t, 'B', h));
  a.start(), b.start();
  a.destroy();
  stop.request_stop();
  g.unlock();
  run();
  EXPECT_EQ(t.order, "B");
}

TEST_F(contended_mutex, goes_to_the_next_if_who_was_given_it_is_destroyed) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  chain a(*m, holds(mutex, t, 'A', h)), b(*m, holds(mutex, t, 'B', h));
  a.start(), b.start();
  g.unlock();
  a.destroy();
  run();
  EXPECT_EQ(t.order, "B");
  h.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

TEST_F(contended_mutex, is_free_if_the_only_one_who_was_given_it_is_destroyed) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  chain a(*m, holds(mutex, t, 'A', h));
  a.start();
  g.unlock();
  a.destroy();
  run();
  EXPECT_EQ(t.order, "");
  EXPECT_TRUE(mutex.try_lock());
}

TEST_F(contended_mutex, takes_nothing_from_who_was_stopped_and_destroyed) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  stop_source stop;
  chain a(*m, holds(mutex, t, 'A', h), stop.get_token());
  a.start();
  stop.request_stop();
  a.destroy();
  run();
  EXPECT_FALSE(mutex.try_lock());
  g.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

TEST_F(contended_mutex, knows_no_more_of_the_stop_of_who_has_gone_on) {
  async_mutex mutex;
  async_mutex::guard g = mutex.try_lock(), h;
  stop_source stop; // ends with nothing attached: see its destructor
  chain a(*m, holds(mutex, t, 'A', h), stop.get_token());
  a.start();
  g.unlock();
  run();
  EXPECT_EQ(t.order, "A");
}

TEST_F(contended_mutex, hands_over_a_million_times_in_constant_stack) {
  int const each = often(500'000);
  async_mutex mutex;
  std::uint64_t turns = 0;
  char const* last = nullptr;
  auto body = [&](char const* me) -> task<> {
    for (int i = 0; i != each; ++i) {
      auto g = co_await mutex.co_lock();
      EXPECT_TRUE(g.has_value());
      turns += last != me ? 1 : 0;
      last = me;
      (void)co_await unio::co_no_op(m.get()); // so that the other one has come
    }
  };
  async_mutex::guard g = mutex.try_lock();
  chain a(*m, body("A")), b(*m, body("B"));
  a.start(), b.start();
  g.unlock();
  while (!a.ended() || !b.ended()) (void)m->run().value();
  EXPECT_EQ(turns, 2 * static_cast<std::uint64_t>(each));
}

TEST(async_mutex, death_of_who_unlocks_what_is_free) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  async_mutex m;
  EXPECT_DEATH(m.unlock(), "nobody holds");
}

class several_threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, several_threads, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(several_threads, count_exactly_under_a_mutex) {
  constexpr int each = 4000;
  async_mutex m;
  std::uint64_t counter = 0; // not atomic: the mutex is what protects it
  on_threads(GetParam(), [&](int) -> task<> {
    return [](async_mutex& mutex, std::uint64_t& n) -> task<> {
      unio::environment const& e = co_await unio::this_coro::environment;
      for (int i = 0; i != each; ++i) {
        auto g = co_await mutex.co_lock();
        EXPECT_TRUE(is_at_home(e));
        ++n;
        if (i % 16 == 0) (void)co_await unio::co_no_op();
      }
    }(m, counter);
  });
  EXPECT_EQ(counter, static_cast<std::uint64_t>(GetParam()) * each);
  EXPECT_TRUE(m.try_lock());
}

TEST_P(several_threads, share_the_permits_of_a_semaphore) {
  constexpr int each = 3000;
  semaphore s(3);
  std::atomic<int> out{0}, most{0};
  on_threads(GetParam(), [&](int i) {
    return [](semaphore& sem, std::atomic<int>& taken, std::atomic<int>& max, int who) -> task<> {
      unio::environment const& e = co_await unio::this_coro::environment;
      for (int n = 0; n != each; ++n) {
        int const k = 1 + (who + n) % 3;
        (co_await sem.co_acquire(static_cast<std::uint32_t>(k))).value();
        EXPECT_TRUE(is_at_home(e));
        int const now = taken.fetch_add(k) + k;
        if (int m = max.load(); now > m) max.compare_exchange_strong(m, now);
        if (n % 16 == 0) (void)co_await unio::co_no_op();
        taken.fetch_sub(k);
        sem.release(static_cast<std::uint32_t>(k));
      }
    }(s, out, most, i);
  });
  EXPECT_LE(most.load(), 3);
  EXPECT_TRUE(s.try_acquire(3));
  EXPECT_FALSE(s.try_acquire());
}

TEST_P(several_threads, meet_again_and_again) {
  constexpr int rounds = 1000;
  int const n = GetParam();
  int phase = 0; // changed by the completion alone
  auto next = [&]() noexcept { ++phase; };
  unio::rendezvous<decltype(next)> b(static_cast<std::uint32_t>(n), next);
  on_threads(n, [&](int) {
    return [](decltype(b)& bar, int& p) -> task<> {
      unio::environment const& e = co_await unio::this_coro::environment;
      for (int i = 0; i != rounds; ++i) {
        EXPECT_EQ(p, i);
        (co_await bar.co_arrive_and_wait()).value();
        EXPECT_TRUE(is_at_home(e));
      }
    }(b, phase);
  });
  EXPECT_EQ(phase, rounds);
}

TEST_P(several_threads, take_turns_with_events_that_reset_themselves) {
  constexpr int rounds = 2000;
  auto const n = static_cast<std::size_t>(GetParam());
  std::vector<std::unique_ptr<auto_reset_event>> events;
  for (std::size_t i = 0; i != n; ++i) events.push_back(std::make_unique<auto_reset_event>(i == 0));
  std::uint64_t counter = 0;
  on_threads(GetParam(), [&](int i) {
    auto const me = static_cast<std::size_t>(i);
    return [](auto_reset_event& mine, auto_reset_event& next, std::uint64_t& c, std::uint64_t first,
              std::uint64_t step) -> task<> {
      for (std::uint64_t r = 0; r != rounds; ++r) {
        (co_await mine.co_wait()).value();
        EXPECT_EQ(c, first + r * step);
        ++c;
        next.set();
      }
    }(*events[me], *events[(me + 1) % n], counter, me, n);
  });
  EXPECT_EQ(counter, n * rounds);
}

// What is awaited ends with the one who waits, on its thread, while the other one may not have returned from
// letting it go.
struct published {
  std::atomic<event*> e{nullptr};
  std::atomic<latch*> l{nullptr};
  std::atomic<async_mutex*> m{nullptr};
  template <class T> static T& take(std::atomic<T*>& slot) {
    T* p = nullptr;
    while ((p = slot.exchange(nullptr, std::memory_order_acquire)) == nullptr) std::this_thread::yield();
    return *p;
  }
};
constexpr int lives = 1000;

task<> makes_and_destroys(published& p) {
  for (int r = 0; r != lives; ++r) {
    event e;
    p.e.store(&e, std::memory_order_release);
    (co_await e.co_wait()).value();
    latch l(2);
    p.l.store(&l, std::memory_order_release);
    (co_await l.co_wait()).value();
    async_mutex m;
    m.try_lock().release();
    p.m.store(&m, std::memory_order_release);
    auto const g = co_await m.co_lock();
    EXPECT_TRUE(g.has_value());
  }
}

task<> lets_go(published& p) {
  for (unsigned r = 0; r != lives; ++r) {
    dither(r * 31 % 700);
    published::take(p.e).set();
    latch& l = published::take(p.l);
    l.count_down();
    l.count_down();
    published::take(p.m).unlock();
  }
  co_return;
}

TEST(threads, may_destroy_what_has_let_them_go) {
  published p;
  on_threads(2, [&](int i) { return i == 0 ? makes_and_destroys(p) : lets_go(p); });
}

// ---- a stop against a hand-over, from two other threads ---------------------------------------------------

constexpr int times_stopped = 1500;

struct tally {
  int granted = 0, canceled = 0;
  std::optional<bool> last;
  void add(bool g) {
    last = g;
    ++(g ? granted : canceled);
  }
};

TEST(async_mutex, raced_by_a_stop_is_held_or_not_and_never_lost) {
  async_mutex m;
  tally all;
  race_grant_against_stop(
      times_stopped, [&] { m.try_lock().release(); },
      [&] {
        return [](async_mutex& mutex, tally& t) -> task<> {
          auto g = co_await mutex.co_lock();
          t.add(g.has_value());
        }(m, all);
      },
      [&] { m.unlock(); },
      [&] {
        ASSERT_TRUE(all.last.has_value());
        EXPECT_TRUE(m.try_lock()) << *all.last;
        all.last.reset();
      });
  EXPECT_EQ(all.granted + all.canceled, times_stopped);
}

TEST(semaphore, raced_by_a_stop_gives_its_permits_or_keeps_them) {
  semaphore s(0);
  tally all;
  race_grant_against_stop(
      times_stopped, [] {},
      [&] {
        return [](semaphore& sem, tally& t) -> task<> {
          auto const r = co_await sem.co_acquire(2);
          t.add(r.has_value());
        }(s, all);
      },
      [&] { s.release(), s.release(); },
      [&] {
        ASSERT_TRUE(all.last.has_value());
        EXPECT_EQ(s.try_acquire(2), !*all.last);
        EXPECT_FALSE(s.try_acquire());
        all.last.reset();
      });
  EXPECT_EQ(all.granted + all.canceled, times_stopped);
}

TEST(auto_reset_event, raced_by_a_stop_is_reset_or_stays_set) {
  auto_reset_event e;
  tally all;
  race_grant_against_stop(
      times_stopped, [] {},
      [&] {
        return [](auto_reset_event& ev, tally& t) -> task<> {
          auto const r = co_await ev.co_wait();
          t.add(r.has_value());
        }(e, all);
      },
      [&] { e.set(); },
      [&] {
        ASSERT_TRUE(all.last.has_value());
        EXPECT_EQ(e.try_wait(), !*all.last);
        all.last.reset();
      });
  EXPECT_EQ(all.granted + all.canceled, times_stopped);
}

TEST(event, raced_by_a_stop_ends_the_wait_once) {
  event e;
  tally all;
  race_grant_against_stop(
      times_stopped, [&] { e.reset(); },
      [&] {
        return [](event& ev, tally& t) -> task<> {
          auto const r = co_await ev.co_wait();
          t.add(r.has_value());
        }(e, all);
      },
      [&] { e.set(); }, [&] { EXPECT_TRUE(e.is_set()); });
  EXPECT_EQ(all.granted + all.canceled, times_stopped);
}

// ---- semaphore --------------------------------------------------------------------------------------------

TEST(semaphore, counts_its_permits) {
  semaphore s(2);
  EXPECT_TRUE(s.try_acquire());
  EXPECT_FALSE(s.try_acquire(2));
  EXPECT_TRUE(s.try_acquire());
  EXPECT_FALSE(s.try_acquire());
  EXPECT_TRUE(s.try_acquire(0));
  s.release(3);
  EXPECT_TRUE(s.try_acquire(3));
}

TEST_F(contended_semaphore, does_not_let_those_who_want_few_overtake_who_wants_many) {
  semaphore s(0);
  chain a(*m, waits([&] { return s.co_acquire(3); }, t, 'A')),
      b(*m, waits([&] { return s.co_acquire(); }, t, 'B'));
  a.start(), b.start();
  s.release(2);
  EXPECT_FALSE(s.try_acquire());
  run();
  EXPECT_EQ(t.order, "");
  s.release(2);
  run();
  EXPECT_EQ(t.order, "AB");
  EXPECT_FALSE(s.try_acquire());
}

TEST_F(contended_semaphore, serves_those_behind_who_was_stopped_or_destroyed) {
  semaphore s(2);
  stop_source stop;
  chain a(*m, waits([&] { return s.co_acquire(3); }, t, 'A'), stop.get_token());
  chain b(*m, waits([&] { return s.co_acquire(3); }, t, 'B'));
  chain c(*m, waits([&] { return s.co_acquire(2); }, t, 'C'));
  a.start(), b.start(), c.start();
  stop.request_stop();
  run();
  EXPECT_EQ(t.order, "a");
  b.destroy();
  run();
  EXPECT_EQ(t.order, "aC");
  EXPECT_FALSE(s.try_acquire());
}

TEST_F(contended_semaphore, gets_the_permits_of_who_was_given_them_and_destroyed) {
  semaphore s(0);
  chain a(*m, waits([&] { return s.co_acquire(3); }, t, 'A')),
      b(*m, waits([&] { return s.co_acquire(); }, t, 'B'));
  a.start(), b.start();
  s.release(3);
  a.destroy();
  run();
  EXPECT_EQ(t.order, "B");
  EXPECT_TRUE(s.try_acquire(2));
}

TEST_F(contended_semaphore, counts_up_to_its_maximum) {
  semaphore s(semaphore::max - 1);
  s.release();
  EXPECT_TRUE(s.try_acquire(semaphore::max));
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  s.release(semaphore::max);
  EXPECT_DEATH(s.release(), "more permits");
}

// ---- events -----------------------------------------------------------------------------------------------

TEST(event, stays_set_until_it_is_reset) {
  event e;
  EXPECT_FALSE(e.is_set());
  e.set(), e.set();
  EXPECT_TRUE(e.is_set());
  e.reset(), e.reset();
  EXPECT_FALSE(e.is_set());
  EXPECT_TRUE(event(true).is_set());
}

TEST_F(contended_event, lets_all_go_on_who_wait_and_whoever_comes) {
  event e;
  stop_source stop;
  chain a(*m, waits([&] { return e.co_wait(); }, t, 'A')), b(*m, waits([&] { return e.co_wait(); }, t, 'B'));
  chain c(*m, waits([&] { return e.co_wait(); }, t, 'C'), stop.get_token());
  chain d(*m, waits([&] { return e.co_wait(); }, t, 'D')), f(*m, waits([&] { return e.co_wait(); }, t, 'F'));
  a.start(), b.start(), c.start(), f.start();
  stop.request_stop();
  f.destroy();
  run();
  EXPECT_EQ(t.order, "c");
  e.set();
  e.reset(); // too late for those
  run();
  EXPECT_EQ(t.order, "cAB");
  d.start();
  EXPECT_FALSE(d.ended());
  e.set();
  run();
  EXPECT_EQ(t.order, "cABD");
  chain g(*m, waits([&] { return e.co_wait(); }, t, 'G'));
  g.start();
  EXPECT_TRUE(g.ended());
}

TEST_F(contended_event, takes_back_what_it_was_about_to_resume) {
  event e;
  chain a(*m, waits([&] { return e.co_wait(); }, t, 'A')), b(*m, waits([&] { return e.co_wait(); }, t, 'B'));
  a.start(), b.start();
  e.set();
  a.destroy();
  run();
  EXPECT_EQ(t.order, "B");
}

// What runs at once: what was granted to one may be destroyed by another that goes on before it.
struct at_once : ::testing::Test {
  std::unique_ptr<unio::task_group> siblings;
  stop_source stop;
  template <class Executor, class Wait> void wait_together(Executor on, Wait wait, told& t) {
    unio::async_run(on, destroys_the_others(wait, t));
    unio::async_run(on, makes_others(wait, t), {.stop = stop.get_token()});
  }
  template <class Wait> task<> destroys_the_others(Wait wait, told& t) {
    result<void> const r = co_await wait();
    t.add('A', r.has_value());
    siblings.reset();
  }
  template <class Wait> task<> makes_others(Wait wait, told& t) {
    siblings = std::make_unique<unio::task_group>(co_await unio::this_coro::environment);
    siblings->start(waits_at_once(wait, t, 'B'));
    siblings->start(waits_at_once(wait, t, 'C'));
    (void)co_await event().co_wait(); // keeps its environment until it is stopped
  }
  template <class Wait> static task<> waits_at_once(Wait wait, told& t, char who) {
    result<void> const r = co_await wait();
    t.add(who, r.has_value());
  }
};

TEST_F(at_once, an_event_resumes_none_that_another_has_destroyed) {
  event e;
  told t;
  wait_together(unio::inline_executor(), [&] { return e.co_wait(); }, t);
  e.set();
  EXPECT_EQ(t.order, "A");
  stop.request_stop();
}

TEST_F(at_once, an_event_resumes_none_that_another_of_its_strand_has_destroyed) {
  event e;
  told t;
  unio::strand const s{unio::inline_executor()};
  wait_together(s, [&] { return e.co_wait(); }, t);
  e.set();
  EXPECT_EQ(t.order, "A");
  stop.request_stop();
}

TEST_F(at_once, a_semaphore_takes_its_permits_back_from_who_is_destroyed) {
  semaphore s(0);
  told t;
  wait_together(unio::inline_executor(), [&] { return s.co_acquire(); }, t);
  s.release(3);
  EXPECT_EQ(t.order, "A");
  EXPECT_TRUE(s.try_acquire(2));
  EXPECT_FALSE(s.try_acquire(1));
  stop.request_stop();
}

// A goes on first, and makes another one go on inside of that, which destroys those that the first event has
// not resumed yet; or does so itself after that.
TEST_F(at_once, an_event_set_while_another_resumes_lets_those_be_destroyed) {
  for (bool const inside : {true, false}) {
    event e, other;
    told t;
    auto const sets_the_other = [](event& first, event& second, at_once& self, bool destroys,
                                   told& to) -> task<> {
      (co_await first.co_wait()).value();
      to.add('A', true);
      second.set();
      if (destroys) self.siblings.reset();
    };
    auto const waits_for_the_other = [](event& second, at_once& self, bool destroys, told& to) -> task<> {
      (co_await second.co_wait()).value();
      to.add('D', true);
      if (destroys) self.siblings.reset();
    };
    stop_source enough;
    unio::async_run(unio::inline_executor(), sets_the_other(e, other, *this, !inside, t));
    unio::async_run(unio::inline_executor(), waits_for_the_other(other, *this, inside, t));
    auto const wait = [&] { return e.co_wait(); };
    unio::async_run(unio::inline_executor(), makes_others(wait, t), {.stop = enough.get_token()});
    e.set();
    EXPECT_EQ(t.order, "AD");
    enough.request_stop();
  }
}

TEST_F(at_once, a_rendezvous_calls_its_completion_before_it_resumes_any) {
  told t;
  auto completion = [&]() noexcept { t.order += '!'; };
  unio::rendezvous<decltype(completion)> b(2, completion);
  for (char const who : {'A', 'B'}) {
    auto const wait = [&] { return b.co_arrive_and_wait(); };
    unio::async_run(unio::inline_executor(), waits_at_once(wait, t, who));
  }
  EXPECT_EQ(t.order.front(), '!');
  EXPECT_EQ(t.order.size(), 3u);
}

TEST_F(contended_auto_reset_event, lets_one_go_on_each_time) {
  auto_reset_event e;
  e.set(), e.set();
  EXPECT_TRUE(e.try_wait());
  EXPECT_FALSE(e.try_wait());
  chain a(*m, waits([&] { return e.co_wait(); }, t, 'A')), b(*m, waits([&] { return e.co_wait(); }, t, 'B'));
  a.start(), b.start();
  e.set();
  EXPECT_FALSE(e.try_wait());
  run();
  EXPECT_EQ(t.order, "A");
  e.set();
  b.destroy();
  EXPECT_TRUE(e.try_wait()) << "was lost with who was destroyed";
  e.set();
  e.reset();
  EXPECT_FALSE(e.try_wait());
}

TEST_F(contended_auto_reset_event, set_anew_is_not_set_twice_when_who_was_granted_it_is_destroyed) {
  auto_reset_event e;
  chain a(*m, waits([&] { return e.co_wait(); }, t, 'A'));
  a.start();
  e.set(), e.set();
  a.destroy();
  e.reset();
  EXPECT_FALSE(e.try_wait());
}

// ---- latch ------------------------------------------------------------------------------------------------

TEST_F(contended_latch, lets_all_go_on_once_it_is_zero) {
  latch l(3);
  stop_source stop;
  chain a(*m, waits([&] { return l.co_wait(); }, t, 'A')), b(*m, waits([&] { return l.co_wait(); }, t, 'B'));
  chain c(*m, waits([&] { return l.co_arrive_and_wait(); }, t, 'C'), stop.get_token());
  a.start(), b.start(), c.start();
  stop.request_stop();
  run();
  EXPECT_EQ(t.order, "c");
  l.count_down();
  run();
  EXPECT_FALSE(l.try_wait());
  EXPECT_EQ(t.order, "c");
  chain d(*m, waits([&] { return l.co_arrive_and_wait(); }, t, 'D'));
  d.start(); // the last one does not wait
  EXPECT_EQ(t.order, "cD");
  run();
  EXPECT_EQ(t.order, "cDAB");
  EXPECT_TRUE(l.try_wait());
}

TEST_F(contended_latch, of_zero_is_open) {
  latch l(0);
  chain a(*m, waits([&] { return l.co_wait(); }, t, 'A'));
  a.start();
  EXPECT_TRUE(a.ended());
}

TEST(latch, death_of_who_counts_below_zero) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  latch l(1);
  EXPECT_DEATH(l.count_down(2), "below zero");
}

// ---- rendezvous -------------------------------------------------------------------------------------------

TEST_F(contended_rendezvous, calls_its_completion_before_anybody_goes_on) {
  std::string& order = t.order;
  auto completion = [&]() noexcept { order += '!'; };
  unio::rendezvous<decltype(completion)> b(2, completion);
  auto twice = [&](char who) -> task<> {
    for (int i = 0; i != 2; ++i) {
      auto const r = co_await b.co_arrive_and_wait();
      t.add(who, r.has_value());
    }
  };
  chain a(*m, twice('A')), c(*m, twice('B'));
  a.start(), c.start();
  run();
  EXPECT_EQ(order, "!BA!AB");
}

TEST_F(contended_rendezvous, waits_for_another_in_the_place_of_who_was_stopped_or_destroyed) {
  unio::rendezvous<> b(3);
  stop_source stop;
  auto wait = [&] { return b.co_arrive_and_wait(); };
  chain a(*m, waits(wait, t, 'A'), stop.get_token()), c(*m, waits(wait, t, 'C')), d(*m, waits(wait, t, 'D'));
  chain e(*m, waits(wait, t, 'E')), f(*m, waits(wait, t, 'F'));
  a.start(), c.start();
  stop.request_stop();
  c.destroy();
  run();
  EXPECT_EQ(t.order, "a");
  d.start(), e.start();
  run();
  EXPECT_EQ(t.order, "a");
  f.start();
  run();
  EXPECT_EQ(t.order, "aFDE");
}

TEST_F(contended_rendezvous, does_not_wait_for_who_has_left) {
  unio::rendezvous<> b(3);
  auto wait = [&] { return b.co_arrive_and_wait(); };
  chain a(*m, waits(wait, t, 'A')), c(*m, waits(wait, t, 'C'));
  a.start();
  b.arrive_and_drop();
  run();
  EXPECT_EQ(t.order, "");
  c.start();
  run();
  EXPECT_EQ(t.order, "CA");
  b.arrive_and_drop();
  chain d(*m, waits(wait, t, 'D'));
  d.start();
  EXPECT_TRUE(d.ended());
}

TEST_F(contended_rendezvous, is_complete_when_the_last_who_was_waited_for_leaves) {
  std::string& order = t.order;
  auto completion = [&]() noexcept { order += '!'; };
  unio::rendezvous<decltype(completion)> b(2, completion);
  auto wait = [&] { return b.co_arrive_and_wait(); };
  chain a(*m, waits(wait, t, 'A'));
  a.start();
  b.arrive_and_drop();
  EXPECT_EQ(order, "!");
  run();
  EXPECT_EQ(order, "!A");
  stop_source stop;                   // ends with nothing attached: see its destructor
  for (char const who : {'B', 'C'}) { // alone, each time
    chain c(*m, waits(wait, t, who), stop.get_token());
    c.start();
    EXPECT_TRUE(c.ended());
  }
  EXPECT_EQ(order, "!A!B!C");
}

TEST(rendezvous, death_of_who_leaves_where_none_take_part) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  unio::rendezvous<> b(1);
  b.arrive_and_drop();
  EXPECT_DEATH(b.arrive_and_drop(), "more have left");
}

// ---- all of them ------------------------------------------------------------------------------------------

// A guard in a result, a temporary in the same expression: what compilers have got wrong.
TEST_F(one_thread, forms_of_awaiting_that_compilers_have_got_wrong) {
  async_mutex mutex;
  semaphore s(1);
  auto body = [&]() -> task<> {
    auto g = (co_await mutex.co_lock()).value();
    EXPECT_FALSE(mutex.try_lock());
    g = {};
    if (auto h = co_await mutex.co_lock(); h.has_value()) {
      EXPECT_FALSE(mutex.try_lock());
    }
    (void)(co_await mutex.co_lock()).value();
    EXPECT_TRUE(mutex.try_lock());
    auto lock = mutex.co_lock(); // described now, awaited later
    {
      auto const k = co_await lock;
    }
    EXPECT_TRUE(mutex.try_lock());
    (co_await s.co_acquire()).value();
    s.release();
  };
  chain a(*m, body());
  a.start();
  EXPECT_TRUE(a.ended());
  EXPECT_TRUE(mutex.try_lock());
}

} // namespace
