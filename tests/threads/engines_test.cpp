// Multiplexers and threads: defects that were there, each in its shortest form, which no seed may find again.
// scripts/check-planted plants them back, one by one. Each program runs on epoll, with real descriptors, and
// in a simulated system.

#include "support/forwarding.hpp"
#include "support/test.hpp"
#include "threads/support.hpp"
#include "threads/watched.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <latch>
#include <optional>

namespace {

using namespace test;
using namespace threads_tests;

// ---- the end of what is pending ----

// Those that sleep look up only for a while, and not at all when the last ends.
SEEDED_TEST_P(threads_on, run_returns_when_another_thread_has_finished_the_last_operation) {
  unio::timer_handle t(1ms);
  bool ended = false;
  unio::start(*m, unio::async_wait(t), [&](auto) {
    std::this_thread::sleep_for(1s);
    ended = true;
  });
  std::thread other(run_to_the_end, std::ref(*m)), third(run_to_the_end, std::ref(*m));
  run_to_the_end(*m);
  other.join();
  third.join();
  require(ended, "something is pending");
}

SEEDED_TEST_P(threads_on, run_returns_when_the_last_operation_is_destroyed_before_it_runs) {
  unio::timer_handle never(for_ever, m.get());
  std::optional op(unio::connect(unio::atomic_async_wait(never), ignoring<void>{}));
  op->start();
  std::thread other(run_to_the_end, std::ref(*m));
  op.reset();
  other.join();
}

SEEDED_TEST_P(threads_on, run_returns_when_another_thread_has_closed_the_last_handle) {
  auto pair = unio::socket_handle::pair().value();
  std::byte room[16];
  auto op = unio::connect(unio::async_read(pair.first, unio::mutable_buffer(room)),
                          ignoring<unio::mutable_buffers>{});
  op.start(m.get());
  (void)m->try_run();
  std::thread other(run_to_the_end, std::ref(*m));
  (void)pair.first.close();
  other.join();
}

SEEDED_TEST_P(threads_on, nothing_is_pending_after_the_thread_of_the_last_operation_has_ended) {
  (void)m->try_run(); // so that it does not take the place of the thread that ends
  std::thread([&] {
    auto pair = unio::socket_handle::pair().value();
    std::byte room[16];
    auto op = unio::connect(unio::async_read(pair.first, unio::mutable_buffer(room)),
                            ignoring<unio::mutable_buffers>{});
    op.start(m.get());
    (void)m->try_run();
    (void)pair.first.close();
  }).join();
  run_to_the_end(*m);
}

SEEDED_TEST_P(threads_on, try_run_for_says_that_another_thread_has_something_pending) {
  std::latch started(1);
  std::thread other([&] {
    (void)m->try_run(); // it runs it, and keeps what it starts
    unio::timer_handle t(30min);
    unio::start(*m, unio::async_wait(t), [](auto) {});
    started.count_down();
    run_to_the_end(*m);
  });
  started.wait();
  require(m->try_run_for(200ms).value_or(0) != 0, "the timer is pending");
  require(m->try_run().value_or(0) != 0, "the timer is still pending");
  other.join();
}

SEEDED_TEST_P(threads_on, run_says_0_only_when_what_was_posted_has_run) {
  (void)m->try_run(); // what this thread posts is its own, for the other to take
  std::atomic<int> left{6};
  std::function<void()> const one = [&] {
    if (--left % 3 != 0) (void)m->post(one); // what runs may post more
  };
  auto const run_both = [&] {
    run_to_the_end(*m);
    require(left == 0, "something is posted or runs");
  };
  (void)m->post(one);
  (void)m->post([&] { left -= 3; });
  std::thread other(run_both);
  run_both();
  other.join();
}

// What is posted is there before the last operation ends, so that something is posted, pending or running
// until it has run.
SEEDED_TEST_P(threads_on, run_does_not_say_0_while_what_was_posted_before_the_last_end_is_on_its_way) {
  unio::timer_handle never(for_ever, m.get());
  auto op = unio::connect(unio::atomic_async_wait(never), ignoring<void>{});
  (void)m->try_run();
  op.start();
  std::atomic<bool> has_run{false};
  auto const run_both = [&] {
    run_to_the_end(*m);
    require(has_run, "something is posted or runs");
  };
  std::thread other(run_both);
  (void)m->post([&] { has_run = true; });
  op.cancel();
  while (!op.finished()) (void)op.poll(); // delivered before this thread runs what it has posted
  run_both();
  other.join();
}

// What one thread has pending, while others begin and end something: the sum is never too small.
SEEDED_TEST_P(threads_on, run_does_not_say_0_while_another_thread_starts_what_ends_at_once) {
  unio::timer_handle never(for_ever, m.get());
  watched<unio::atomic_async_wait> keep{unio::atomic_async_wait(never)};
  std::latch kept(1);
  auto const run_both = [&] {
    run_to_the_end(*m);
    require(keep.ends == 1, "something is pending");
  };
  std::thread keeps([&] {
    (void)m->try_run(); // it runs it, and keeps what it starts
    keep.start();
    kept.count_down();
    run_both();
  });
  kept.wait();
  std::thread asks(run_both);
  for (int i = 0; i != 3; ++i) {
    shareable r(*m);
    r.write();
    r.op.start();
    while (r.op.ends == 0) std::this_thread::sleep_for(10us);
  }
  keep.cancel();
  keeps.join();
  asks.join();
}

SEEDED_TEST_P(threads_on, run_says_0_only_when_what_another_thread_closes_is_notified) {
  plain r(*m);
  r.op.start(); // no thread runs it yet
  std::thread closes([&] { (void)r.ends.first.close(); });
  run_to_the_end(*m);
  require(r.op.ends == 1, "its end was notified");
  closes.join();
}

// Its own receiver is not what it waits for.
TEST_P(threads_on, run_inside_a_receiver_returns_when_another_thread_has_finished_the_last_operation) {
  expect_no_failure([] {
    auto const m = multiplexer(3);
    std::latch begun(3);
    std::atomic<bool> has_returned{false};
    auto const begin_with = [&](std::chrono::milliseconds after, auto then) {
      (void)m->try_run();
      unio::timer_handle t(after);
      unio::start(*m, unio::async_wait(t), [then](auto) { then(); });
      begun.arrive_and_wait();
      run_to_the_end(*m);
    };
    std::thread inside([&] {
      begin_with(1ms, [&] {
        run_to_the_end(*m);
        has_returned = true;
      });
    });
    std::thread last([&] { begin_with(100ms, [] {}); });
    std::thread waits([&] {
      begun.arrive_and_wait();
      run_to_the_end(*m);
      require(has_returned, "a receiver still runs");
    });
    inside.join();
    last.join();
    waits.join();
  });
}

// Each waits for the other, which runs what it has started.
SEEDED_TEST_P(threads_on, two_threads_destroy_what_the_other_one_runs) {
  std::latch both(2);
  auto const destroy_one = [&] {
    unio::timer_handle never(for_ever, m.get());
    auto op = unio::connect(unio::atomic_async_wait(never), ignoring<void>{});
    op.start();
    (void)m->try_run(); // takes over some that no thread runs yet
    both.arrive_and_wait();
  };
  std::thread other(destroy_one);
  destroy_one();
  other.join();
}

// A thread's own multiplexer, with two operations in flight: one that others may ask something, and a read.
struct thread_of_its_own {
  std::unique_ptr<unio::io_multiplexer> m = multiplexer(1);
  unio::timer_handle never{for_ever, m.get()};
  std::optional<unio::io_operation_connection<unio::atomic_async_wait, ignoring<void>>> op;
  plain r{*m};

  void begin() {
    op.emplace(unio::atomic_async_wait(never), ignoring<void>{});
    op->start();
    r.op.start();
    (void)m->try_run();
  }
};

// Each of two threads does something to what the other one runs, and runs its own until both have.
void to_each_other(std::function<void(thread_of_its_own&)> const& first,
                   std::function<void(thread_of_its_own&)> const& second) {
  thread_of_its_own a, b;
  std::latch begun(2);
  std::atomic<int> left{2};
  auto const run = [&](thread_of_its_own& mine, auto const& act, thread_of_its_own& others) {
    mine.begin();
    begun.arrive_and_wait();
    act(others);
    --left;
    while (left != 0) (void)mine.m->try_run_for(1ms);
    mine.m.reset();
  };
  std::thread other([&] { run(b, second, a); });
  run(a, first, b);
  other.join();
}

void destroy_one(thread_of_its_own& others) { others.op.reset(); }

TEST_P(threads_on, two_threads_destroy_what_the_other_one_runs_on_its_own) {
  expect_no_failure([] { to_each_other(destroy_one, destroy_one); });
}

TEST_P(threads_on, a_thread_that_destroys_answers_one_that_closes) {
  expect_no_failure([] { to_each_other(destroy_one, [](thread_of_its_own& others) { others.r.close(); }); });
}

// ---- closing what another thread has in flight ----

SEEDED_TEST_P(threads_on, a_thread_is_asked_for_each_handle_that_another_closes) {
  plain r(*m), q(*m);
  std::latch begun(1);
  std::thread runner([&] {
    (void)m->try_run(); // it runs it, and keeps what it starts
    r.op.start();
    q.op.start();
    begun.count_down();
    run_to_the_end(*m);
  });
  begun.wait();
  r.close();
  q.close();
  runner.join();
}

// The first waits for a third thread, which goes on only when the other one has closed its handle.
SEEDED_TEST_P(threads_on, a_thread_that_closes_answers_another_one_that_does) {
  plain r(*m), q(*m);
  std::latch begun(2), closed(1);
  std::thread third([&] {
    (void)m->try_run();
    r.op.start();
    begun.count_down();
    closed.wait();
    run_to_the_end(*m);
  });
  std::thread first([&] {
    (void)m->try_run();
    q.op.start();
    begun.arrive_and_wait();
    r.close();
  });
  begun.wait();
  q.close();
  closed.count_down();
  first.join();
  third.join();
}

// Its thread is asked to end it, and does not come to that.
SEEDED_TEST_P(threads_on, closing_returns_when_the_last_operation_was_polled_to_its_end) {
  plain r(*m);
  std::latch begun(1), closed(1);
  std::thread polls([&] {
    (void)m->try_run();
    r.op.start();
    begun.count_down();
    while (r.op.poll() == unio::io_status::pending) std::this_thread::yield();
    closed.wait();
  });
  begun.wait();
  r.write();
  require(r.ends.first.close().has_value(), "the handle is closed");
  closed.count_down();
  polls.join();
  r.op.expect_success();
}

// ---- waking ----

/// Runs `m`, on which something is pending for ever, until `stop`.
void run_until_stopped(unio::io_multiplexer& m, std::latch& begun, std::atomic<bool> const& stop) {
  unio::timer_handle t(for_ever);
  unio::start(m, unio::async_wait(t), [](auto) {});
  begun.count_down();
  while (!stop) (void)m.run();
}

SEEDED_TEST_P(threads_on, a_wake_is_not_lost_while_another_thread_posts) {
  std::atomic<bool> stop{false};
  std::latch sleeps(1);
  std::thread runner(run_until_stopped, std::ref(*m), std::ref(sleeps), std::cref(stop));
  sleeps.wait();
  std::thread poster([&] { (void)m->post([] {}); });
  stop = true;
  m->wake();
  runner.join();
  poster.join();
}

SEEDED_TEST_P(threads_on, a_post_is_not_lost_while_the_thread_lies_down) {
  std::atomic<bool> stop{false};
  std::latch runs(1);
  std::thread runner(run_until_stopped, std::ref(*m), std::ref(runs), std::cref(stop));
  runs.wait();
  (void)m->post([&] { stop = true; });
  runner.join();
}

/// Runs `m`, on which something is pending for ever, until `end`; then the next thread that does is woken.
void run_until(unio::io_multiplexer& m, std::latch& end) {
  unio::timer_handle t(for_ever);
  unio::start(m, unio::async_wait(t), [](auto) {});
  while (!end.try_wait()) (void)m.run();
  m.wake();
}

// The one that is called for it may be on its way out. The other one looks after a third, which is away, and
// would come to it later.
TEST_P(threads_on, a_post_is_not_lost_with_a_thread_that_leaves_run) {
  expect_no_failure([] {
    auto const m = multiplexer(3);
    std::latch ran(1);
    std::thread away([&] {
      unio::timer_handle never(for_ever, m.get());
      auto op = unio::connect(unio::atomic_async_wait(never), ignoring<void>{});
      (void)m->try_run();
      op.start();
      (void)m->try_run();
      ran.wait();
    });
    std::thread runner(run_until, std::ref(*m), std::ref(ran));
    std::thread leaver([&] {
      (void)m->try_run_for(1s);
      ran.wait(); // does something else
      m->wake();  // which it may have taken
    });
    std::this_thread::sleep_for(1s);
    auto const begun = std::chrono::steady_clock::now();
    (void)m->post([&] { ran.count_down(); });
    ran.wait();
    require(std::chrono::steady_clock::now() - begun < 30ms, "one that sleeps was called");
    m->wake();
    for (std::thread* const t : {&away, &leaver, &runner}) t->join();
  });
}

// Its own thread would come to it next, but does not.
SEEDED_TEST_P(threads_on, the_only_work_that_a_thread_posts_is_run_by_another) {
  std::latch ran(5);
  std::function<void()> const one = [&] {
    ran.count_down();
    if (ran.try_wait()) return;
    (void)m->post(one);
    ran.wait();
  };
  auto const begun = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 0; i != 5; ++i) others.emplace_back(run_until, std::ref(*m), std::ref(ran));
  (void)m->post(one);
  ran.wait();
  m->wake();
  require(std::chrono::steady_clock::now() - begun < 100ms, "one that sleeps looks soon");
  for (std::thread& t : others) t.join();
}

// Another thread's run() is woken while this one reads what is written only once that has returned.
void wake_a_run_beside(unio::io_multiplexer& m, auto const& read) {
  connection c(m);
  std::atomic<bool> stop{false};
  std::latch runs(1);
  std::thread runner(run_until_stopped, std::ref(m), std::ref(runs), std::cref(stop));
  runs.wait();
  std::thread third([&] {
    std::this_thread::sleep_for(1ms);
    stop = true;
    m.wake();
    runner.join();
    c.write();
  });
  std::byte room[1];
  require(read(c.ends.first, unio::mutable_buffer(room)), "it is read");
  third.join();
}

SEEDED_TEST_P(threads_on, a_wake_is_for_a_run_and_not_for_a_blocking_call) {
  wake_a_run_beside(*m, [](auto& from, unio::mutable_buffer into) { return from.read(into).has_value(); });
}

SEEDED_TEST_P(threads_on, a_wake_is_for_a_run_and_not_for_that_of_a_task) {
  wake_a_run_beside(*m, [&m = *m](auto& from, unio::mutable_buffer into) {
    return unio::run(m, from.co_read(into)).has_value();
  });
}

SEEDED_TEST_P(threads_on, a_wake_is_for_a_thread_that_runs) {
  (void)m->try_run(); // this thread has used it, and does not run it now
  std::atomic<bool> stop{false};
  std::thread runner([&] {
    unio::timer_handle t(for_ever);
    unio::start(*m, unio::async_wait(t), [](auto) {});
    while (!stop) (void)m->run();
  });
  stop = true;
  m->wake();
  runner.join();
}

/// Another one, whose do_run() the thread reaches late, as if the kernel had not run it before.
class reached_late final : public test::forwarding_multiplexer {
 public:
  explicit reached_late(unio::io_multiplexer& m) noexcept : forwarding_multiplexer(m, true) {}
  bool withdraw(unio::work& w) noexcept override { return real_.withdraw(w); }
  [[nodiscard]] runner run_by() const noexcept override { return real_.run_by(); }
  unio::io_multiplexer& of_this_thread() noexcept override { return real_.of_this_thread(); }
  void join_in() noexcept override { real_.join_in(); }

 private:
  unio::result<int> do_run(int max_items, std::int64_t until) noexcept override {
    std::this_thread::sleep_for(5ms); // the other one looks after 1 ms
    return forwarding_multiplexer::do_run(max_items, until);
  }
};

// What keeps its run() from ending stays there, though another thread that ends the task takes over what this
// one does not go on with.
SEEDED_TEST_P(threads_on, run_of_a_task_returns_though_its_thread_was_away_when_another_ended_it) {
  reached_late late(*m);
  unio::event over;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    (void)m->try_run();
    unio::timer_handle t(for_ever);
    unio::start(*m, unio::async_wait(t), [](auto) {});
    std::this_thread::sleep_for(1ms); // until the first one waits
    over.set();                       // the task goes on, and ends, on this thread
    while (!stop) (void)m->run();
  });
  unio::run(late, over.co_wait()).value();
  stop = true;
  m->wake();
  other.join();
}

// ---- what is new ----

// Runs `m` with so many operations in flight until `end` is signalled.
void run_with(unio::io_multiplexer& m, int in_flight, unio::event_handle& end, std::latch& runs) {
  m.join_in();
  end.set_multiplexer(&m);
  auto ends = unio::connect(unio::async_wait_event(end), ignoring<std::uint64_t>{});
  ends.start();
  unio::timer_handle t(for_ever);
  t.set_multiplexer(&m);
  std::deque<unio::io_operation_connection<unio::async_wait, ignoring<void>>> keep;
  for (int i = 1; i < in_flight; ++i)
    keep.emplace_back(unio::connect(unio::async_wait(t), ignoring<void>{})).start();
  runs.count_down();
  while (ends.in_flight()) (void)m.run();
}

SEEDED_TEST_P(threads_on, what_is_spawned_begins_though_the_thread_with_least_to_do_does_not_run) {
  m->join_in(); // has nothing in flight, and does not run it
  auto end = unio::event_handle::create().value();
  std::latch runs(1);
  std::atomic<int> begun{0};
  std::thread other([&] { run_with(*m, 3, end, runs); });
  runs.wait();
  std::thread spawner([&] {
    for (int i = 0; i != 3; ++i) (void)m->spawn([&] { ++begun; });
  });
  while (begun != 3) std::this_thread::sleep_for(1ms);
  spawner.join();
  (void)end.signal();
  other.join();
}

SEEDED_TEST_P(threads_on, what_a_thread_spawns_that_ends_begins_on_another) {
  auto first_end = unio::event_handle::create().value();
  auto second_end = unio::event_handle::create().value();
  std::latch runs(2);
  std::atomic<int> begun{0};
  std::thread first([&] { run_with(*m, 1, first_end, runs); });
  std::thread second([&] { run_with(*m, 2, second_end, runs); });
  runs.wait();
  (void)m->post([&] {
    for (int i = 0; i != 3; ++i) (void)m->spawn([&] { ++begun; });
  });
  (void)first_end.signal();
  first.join();
  while (begun != 3) std::this_thread::sleep_for(1ms);
  (void)second_end.signal();
  second.join();
}

struct sessions {
  std::atomic<int> begun{0}, of_first{0}, ended{0};
};
unio::task<> session(std::thread::id first, sessions& all) {
  all.of_first += std::this_thread::get_id() == first ? 1 : 0;
  ++all.begun;
  (void)co_await unio::co_sleep(10s);
  ++all.ended;
}

// All are started by one of them, or by a thread that does not run it, while both sleep.
TEST_P(threads_on, threads_that_answer_begin_the_same_number_of_sessions) {
  bool const simulated = GetParam() == system_kind::simulated;
  exploration const e = explore({.seeds = seeds(100), .slow_threads = false}, [=] {
    std::optional<unio::testing::simulation> s;
    if (simulated) s.emplace(unio::testing::simulation_options::from_seed(unio::testing::schedule_seed()));
    constexpr int n = 6;
    bool const outside = schedule_seed() % 4 == 0;
    auto const m = multiplexer(2);
    auto first_end = unio::event_handle::create().value();
    auto second_end = unio::event_handle::create().value();
    std::latch runs(2);
    sessions all;
    std::thread first([&] { run_with(*m, 2, first_end, runs); });
    std::thread second([&] { run_with(*m, 2, second_end, runs); });
    std::thread::id const id = first.get_id();
    runs.wait();
    auto const start_all = [&] {
      for (int i = 0; i != n; ++i) unio::async_run(*m, session(id, all));
    };
    if (outside) {
      std::this_thread::sleep_for(50ms);
      start_all();
    } else {
      (void)m->post(start_all);
    }
    while (all.begun != n) std::this_thread::sleep_for(1ms);
    require(all.of_first >= n / 3 && all.of_first <= n - n / 3, "each begins its share");
    while (all.ended != n) std::this_thread::sleep_for(1s);
    (void)first_end.signal();
    (void)second_end.signal();
    first.join();
    second.join();
  });
  EXPECT_TRUE(e.passed()) << e.report;
}

// ---- started by one thread, run by another ----

SEEDED_TEST_P(threads_on, an_operation_of_a_thread_that_does_not_run_it_is_run_by_one_that_sleeps) {
  unio::timer_handle forever(for_ever, m.get());
  watched<unio::atomic_async_wait> keep{unio::atomic_async_wait(forever)};
  std::atomic<bool> is_kept = false;
  std::thread runner([&] {
    (void)m->try_run();
    keep.start();
    is_kept = true;
    run_to_the_end(*m);
  });
  shareable r(*m);
  r.op.start();
  r.write();
  while (r.op.ends == 0 || !is_kept) std::this_thread::sleep_for(1ms);
  keep.cancel();
  runner.join();
  r.op.expect_success();
}

// Nor must it wait for one that may never come.
TEST_P(threads_on, a_blocking_call_fails_if_its_thread_cannot_run_the_multiplexer) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its descriptors have no limit";
  expect_no_failure([] {
    auto const m = multiplexer(2);
    (void)m->try_run(); // this thread runs it, and is away
    connection c(*m);
    std::thread([&] {
      rlimit most{};
      require(::getrlimit(RLIMIT_NOFILE, &most) == 0, "the limit is known");
      rlimit const none{.rlim_cur = 0, .rlim_max = most.rlim_max};
      require(::setrlimit(RLIMIT_NOFILE, &none) == 0, "there are no more descriptors");
      std::byte room[1];
      auto const r = c.ends.first.read(unio::mutable_buffer(room));
      require(r.error() == std::errc::too_many_files_open, "the call says so");
    }).join();
    require(m->run().value() == 0, "nothing is pending");
  });
}

/// A handler that starts the next operation, where each ends at once.
struct starts_the_next {
  starts_the_next* next;
  int* depth;
  unio::io_operation_connection<unio::atomic_async_read, starts_the_next>* op;
  void set_value(unio::io_result<unio::mutable_buffers>) noexcept {}
  void set_done() noexcept {
    require(++*depth == 1, "a handler runs inside of another one");
    if (next != nullptr) next->op->start();
    --*depth;
  }
};

// Of an operation that no multiplexer can run: that one has ended.
SEEDED_TEST_P(threads_on, handlers_of_what_ends_inside_start_are_not_nested) {
  connection c(*m);
  m.reset();
  std::byte room[1];
  auto const one = [&](int& depth) {
    return unio::connect(unio::atomic_async_read(c.ends.first, unio::mutable_buffer(room)),
                         starts_the_next{nullptr, &depth, nullptr});
  };
  auto const start_one_after_another = [&] {
    int depth = 0;
    auto first = one(depth), second = one(depth), third = one(depth);
    first.receiver().next = &second.receiver(), second.receiver().next = &third.receiver();
    second.receiver().op = &second, third.receiver().op = &third;
    first.start();
    require(first.finished() && second.finished() && third.finished(), "all have ended");
  };
  std::thread other(start_one_after_another);
  start_one_after_another();
  other.join();
}

// ---- stopping and ending ----

TEST_P(threads_on, a_stop_that_overtakes_the_start_is_not_lost) {
  expect_no_failure([] {
    auto const m = multiplexer(1);
    std::atomic<bool> over{false};
    std::latch runs(1);
    std::thread runner([&] {
      unio::timer_handle forever(for_ever);
      unio::start(*m, unio::async_wait(forever), [](auto) {});
      runs.count_down();
      while (!over) (void)m->run();
    });
    runs.wait();
    unio::stop_source stop;
    unio::timer_handle t(for_ever);
    std::atomic<bool> done{false};
    std::thread stopper([&] { stop.request_stop(); });
    unio::start(
        *m, unio::async_wait(t),
        [&](unio::io_result<void>) {
          done = true;
          done.notify_one();
        },
        stop.get_token());
    stopper.join();
    done.wait(false);
    over = true;
    m->wake();
    runner.join();
  });
}

// The thread that asks for the last end may not have returned from that.
TEST_P(threads_on, the_multiplexer_is_destroyed_when_what_another_thread_cancels_has_ended) {
  expect_no_failure([] {
#ifdef M_PERTURB
    (void)::mallopt(M_PERTURB, 0x5a); // what is freed looks different
#endif
    auto m = multiplexer(2);
    unio::timer_handle never(for_ever, m.get());
    watched<unio::atomic_async_wait> op{unio::atomic_async_wait(never)};
    (void)m->try_run();
    op.start();
    std::thread third([&] { op.cancel(); });
    run_to_the_end(*m);
    op.expect_ended_with(condition::canceled);
    m.reset();
    never.set_multiplexer(nullptr);
    third.join();
  });
}

struct life {
  std::atomic<bool> is_over{false};
};
struct living {
  life* l;
  void set_value(unio::io_result<void>) noexcept {}
  void set_done() noexcept {
    require(!l->is_over, "the receiver has gone before set_done()");
    require(!l->is_over, "the receiver has gone within set_done()");
  }
};

template <class While> void end_on_another_thread(While wait) {
  auto const m = multiplexer(1);
  std::atomic<bool> over{false};
  std::latch runs(1);
  std::thread runner([&] {
    unio::timer_handle forever(for_ever);
    unio::start(*m, unio::async_wait(forever), [](auto) {});
    runs.count_down();
    while (!over) (void)m->run();
  });
  runs.wait();
  {
    unio::timer_handle t(1us);
    life l;
    std::optional<decltype(unio::connect(unio::atomic_async_wait(t), living{&l}))> op;
    op.emplace(unio::atomic_async_wait(t), living{&l});
    op->start(m.get());
    wait(*op);
    op.reset();
    l.is_over = true;
    std::this_thread::sleep_for(1ms);
  }
  over = true;
  m->wake();
  runner.join();
}

TEST_P(threads_on, an_operation_has_finished_when_its_receiver_has_returned) {
  expect_no_failure([] {
    end_on_another_thread([](auto const& op) {
      while (!op.finished()) std::this_thread::yield();
    });
  });
}

TEST_P(threads_on, destroying_an_operation_in_flight_waits_for_its_receiver) {
  expect_no_failure([] {
    end_on_another_thread([](auto const& op) {
      std::uint64_t const way = unio::testing::schedule_seed() / 7 % 3;
      if (way == 1) std::this_thread::sleep_for(1us);                // the timer is due as well
      while (way == 2 && !op.completed()) std::this_thread::yield(); // its receiver is being notified
    });
  });
}

ON_BOTH_SYSTEMS(threads_on);

} // namespace
