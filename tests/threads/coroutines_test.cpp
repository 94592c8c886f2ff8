// Coroutines on two threads: channels, strands, locks of coroutines, groups, timeouts. Under every seed a
// value arrives once, in its sender's order, or stays with its sender; a strand runs one at a time; no permit
// is lost with a wait that is stopped; and all ends.

#include "support/test.hpp"
#include "threads/support.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/channel.hpp>
#include <unio/receiving.hpp>
#include <unio/run.hpp>
#include <unio/stop_token.hpp>
#include <unio/strand.hpp>
#include <unio/sync.hpp>
#include <unio/task.hpp>
#include <unio/task_group.hpp>
#include <unio/thread_pool.hpp>
#include <unio/timer_handle.hpp>
#include <unio/when.hpp>

#include <array>
#include <latch>
#include <utility>

namespace {

using namespace test;
using namespace threads_tests;
using unio::task;

class coroutines_on_two_threads : public threads_on {};
ON_BOTH_SYSTEMS(coroutines_on_two_threads);

// ---- channels ----

struct transfers {
  explicit transfers(std::size_t capacity) : values(capacity) {}
  unio::channel<int> values;
  std::array<std::atomic<int>, 6> arrived{};
  std::array<std::atomic<int>, 2> sent{}, last{-1, -1};
};

task<> send_three(transfers& t, int sender) {
  for (int i = 0; i != 3; ++i) {
    auto const r = co_await t.values.co_send(3 * sender + i);
    if (!r.has_value()) co_return;
    ++t.sent[static_cast<std::size_t>(sender)];
  }
}
task<> receive_all(transfers& t) {
  for (;;) {
    auto const r = co_await t.values.co_receive();
    if (!r.has_value()) co_return;
    ++t.arrived[static_cast<std::size_t>(*r)];
  }
}
task<> receive_in_order(transfers& t) {
  while (auto const r = co_await t.values.co_receive()) {
    ++t.arrived[static_cast<std::size_t>(*r)];
    auto& last = t.last[static_cast<std::size_t>(*r / 3)];
    require(last < *r, "the values of a sender come in their order");
    last = *r;
  }
}

TEST_P(coroutines_on_two_threads, each_value_of_a_channel_arrives_once) {
  expect_no_failure([] {
    transfers t(schedule_seed() % 3);
    unio::thread_pool pool(2);
    unio::async_run(pool.executor(), send_three(t, 0), send_three(t, 1), receive_all(t), receive_all(t));
    while (t.sent[0] + t.sent[1] != 6) std::this_thread::yield();
    t.values.close();
    pool.join();
    for (auto const& n : t.arrived) require(n == 1, "each value arrives once");
  });
}

TEST_P(coroutines_on_two_threads, the_values_of_a_sender_arrive_in_their_order) {
  expect_no_failure([] {
    transfers t(schedule_seed() % 3);
    unio::thread_pool pool(2);
    unio::async_run(pool.executor(), send_three(t, 0), send_three(t, 1), receive_in_order(t));
    while (t.sent[0] + t.sent[1] != 6) std::this_thread::yield();
    t.values.close();
    pool.join();
    for (auto const& n : t.arrived) require(n == 1, "each value arrives once");
  });
}

// What is not sent stays with its sender; what was sent is received, or is in the channel.
TEST_P(coroutines_on_two_threads, no_value_of_a_channel_is_lost_or_doubled_by_stops) {
  expect_no_failure([] {
    transfers t(schedule_seed() % 3);
    unio::thread_pool pool(2);
    unio::stop_source first, second;
    std::atomic<int> ended{0};
    auto const end = [&](auto const&) { ++ended; };
    unio::async_run(pool.executor(), send_three(t, 0), end, {.stop = first.get_token()});
    unio::async_run(pool.executor(), send_three(t, 1), end);
    unio::async_run(pool.executor(), receive_all(t), end, {.stop = second.get_token()});
    std::thread stops([&] { second.request_stop(); });
    first.request_stop();
    stops.join();
    int drained = 0;
    while (ended != 3) {
      if (auto const r = t.values.try_receive(); r.has_value())
        ++t.arrived[static_cast<std::size_t>(*r)], ++drained;
      std::this_thread::yield();
    }
    while (auto const r = t.values.try_receive()) ++t.arrived[static_cast<std::size_t>(*r)];
    pool.join();
    for (int i = 0; i != 6; ++i)
      require(
          t.arrived[static_cast<std::size_t>(i)] == (i % 3 < t.sent[static_cast<std::size_t>(i / 3)] ? 1 : 0),
          "what was sent arrives once, and nothing else");
  });
}

// ---- strands ----

struct alone {
  int inside = 0; // of the strand's
  int done = 0;
  std::array<int, 3> next{};
  void enter(int poster, int number) {
    require(++inside == 1, "no two run at once");
    std::atomic<int> point{0};
    ++point;
    require(next[static_cast<std::size_t>(poster)]++ == number, "in the order in which they were posted");
    ++done;
    --inside;
  }
};

template <class Executor> void post_to(Executor const& e, std::function<void()> f) {
  struct one : unio::work {
    explicit one(std::function<void()> g) : work(&called), f(std::move(g)) {}
    static void called(unio::work& w, bool run) noexcept {
      std::unique_ptr<one> const self(static_cast<one*>(&w));
      if (run) self->f();
    }
    std::function<void()> f;
  };
  e.post(*new one(std::move(f)));
}

TEST_P(coroutines_on_two_threads, a_strand_runs_one_at_a_time_in_order) {
  expect_no_failure([] {
    alone a;
    unio::thread_pool pool(2);
    unio::strand s{pool.executor()};
    auto const post_three = [&](int poster) {
      for (int i = 0; i != 3; ++i) post_to(s, [&a, poster, i] { a.enter(poster, i); });
    };
    pool.post([&] { post_three(0); });
    std::thread other(post_three, 1);
    post_to(s, [&] { post_three(2); }); // from inside
    other.join();
    pool.join();
    require(a.done == 9, "all have run");
  });
}

TEST_P(coroutines_on_two_threads, coroutines_on_a_strand_need_no_lock) {
  expect_no_failure([] {
    int n = 0;
    unio::thread_pool pool(2);
    {
      unio::strand s{pool.executor()};
      auto const count = [](int& n) -> task<> {
        for (int i = 0; i != 3; ++i) {
          int const before = n;
          std::atomic<int> point{0};
          ++point;
          n = before + 1;
          co_await unio::co_yield_now();
        }
      };
      unio::async_run(s, count(n), count(n), count(n));
    }
    pool.join();
    require(n == 9, "no count is lost");
  });
}

// ---- waiting for each other ----

TEST_P(coroutines_on_two_threads, no_permit_is_lost_with_a_wait_that_is_stopped) {
  expect_no_failure([] {
    unio::semaphore permits(1);
    unio::thread_pool pool(2);
    unio::stop_source stop;
    std::atomic<int> ended{0}, granted{0}, inside{0};
    auto const use = [](unio::semaphore& s, std::atomic<int>& granted, std::atomic<int>& inside) -> task<> {
      if (!(co_await s.co_acquire()).has_value()) co_return;
      ++granted;
      require(++inside == 1, "one at a time");
      co_await unio::co_yield_now();
      --inside;
      s.release();
    };
    auto const end = [&](auto const&) { ++ended; };
    unio::async_run(pool.executor(), use(permits, granted, inside), end);
    unio::async_run(pool.executor(), use(permits, granted, inside), end, {.stop = stop.get_token()});
    unio::async_run(pool.executor(), use(permits, granted, inside), end);
    stop.request_stop();
    pool.join();
    require(ended == 3 && granted >= 2, "all have ended");
    require(permits.try_acquire() && !permits.try_acquire(), "the permit is there");
  });
}

TEST_P(coroutines_on_two_threads, all_come_to_a_rendezvous_again_and_again) {
  expect_no_failure([] {
    unio::rendezvous<> both(2);
    unio::thread_pool pool(2);
    std::array<std::atomic<int>, 2> at{};
    auto const walk = [](unio::rendezvous<>& r, std::atomic<int>& mine,
                         std::atomic<int> const& other) -> task<> {
      for (int i = 0; i != 3; ++i) {
        ++mine;
        (co_await r.co_arrive_and_wait()).value();
        require(other > i, "the other one has come");
      }
    };
    unio::async_run(pool.executor(), walk(both, at[0], at[1]), walk(both, at[1], at[0]));
    pool.join();
    require(at[0] == 3 && at[1] == 3, "both have come to the end");
  });
}

TEST_P(coroutines_on_two_threads, an_event_resumes_all_that_wait_and_all_that_come) {
  expect_no_failure([] {
    unio::event e;
    unio::latch passed(2);
    unio::thread_pool pool(2);
    auto const wait = [](unio::event& e, unio::latch& passed) -> task<> {
      (co_await e.co_wait()).value();
      passed.count_down();
    };
    unio::async_run(pool.executor(), wait(e, passed), wait(e, passed));
    std::thread setter([&] { e.set(); });
    unio::sync_wait(pool.executor(), passed.co_wait()).value();
    setter.join();
    pool.join();
  });
}

TEST_P(coroutines_on_two_threads, a_timeout_races_what_it_bounds) {
  expect_no_failure([] {
    unio::auto_reset_event e;
    unio::thread_pool pool(2);
    std::atomic<int> got{0}, late{0};
    auto const wait = [](unio::auto_reset_event& e, std::atomic<int>& got, std::atomic<int>& late) -> task<> {
      auto const r = co_await unio::timeout(2us, e.co_wait());
      r.has_value() ? ++got : ++late;
    };
    unio::async_run(pool.executor(), wait(e, got, late), wait(e, got, late));
    e.set();
    pool.join();
    require(got + late == 2, "both have ended");
    // A set that no wait has got is for the next.
    auto const next = [](unio::auto_reset_event& e) -> task<bool> {
      co_return (co_await unio::timeout(1ms, e.co_wait())).has_value();
    };
    require(unio::run(next(e)) == (got == 0), "the set was for one");
  });
}

// ---- what a stream brings, for a coroutine that goes on now here and now there ----

/// Ends that a pool runs, and what is sent from one to the other.
struct stream_on {
  explicit stream_on(unio::thread_pool& pool) : ends(unio::socket_handle::pair().value()) {
    ends.first.set_multiplexer(&pool.multiplexer());
  }
  void send(int n) {
    for (; n != 0; --n, ++sent) {
      std::byte const b{static_cast<unsigned char>(sent)};
      while (!ends.second.write(unio::const_buffer(&b, 1)).has_value()) continue;
    }
  }
  unio::socket_pair ends;
  int sent = 0;
};

/// Asks for `wanted` bytes, or for all; returns how many have come in their order.
task<int> receive_in_their_order(unio::socket_handle& from, unio::buffer_pool& pool, int wanted,
                                 std::size_t window) {
  unio::receiving in(from, pool, {.window = window});
  int got = 0;
  while (got != wanted) {
    unio::lent_buffer* const next = co_await in.co_next();
    if (next == nullptr) break;
    require(next->size() == 1 && std::to_integer<int>(*next->data()) == got, "the bytes come in their order");
    ++got;
    co_await unio::co_fork(); // and goes on wherever there is time
  }
  if (got != wanted) require(!in.error(), "the stream has ended");
  co_return got;
}

/// Runs that on a pool of two threads, and `sends` on this one; returns how many have come, with all buffers
/// back.
template <class Sends> int received_on_a_pool(int wanted, std::size_t window, Sends sends) {
  unio::thread_pool pool(2);
  unio::buffer_pool buffers(8, 1);
  stream_on s(pool);
  std::atomic<int> got{-1};
  unio::async_run(pool.executor(), receive_in_their_order(s.ends.first, buffers, wanted, window),
                  [&](auto n) { got = n.value(); });
  sends(s);
  while (got < 0) std::this_thread::yield();
  pool.join();
  require(buffers.lent() == 0, "all buffers are back");
  return got;
}

TEST_P(coroutines_on_two_threads, what_is_received_comes_once_and_in_its_order) {
  expect_no_failure([] {
    int const got = received_on_a_pool(-1, 1 + schedule_seed() % 4, [](stream_on& s) {
      s.send(12);
      require(s.ends.second.close().has_value(), "it is closed");
    });
    require(got == 12, "all have come");
  });
}

TEST_P(coroutines_on_two_threads, what_receives_is_dropped_while_it_reads_ahead) {
  expect_no_failure([] {
    int const wanted = 1 + static_cast<int>(schedule_seed() % 3);
    require(received_on_a_pool(wanted, 4, [](stream_on& s) { s.send(6); }) == wanted, "so many have come");
  });
}

TEST_P(coroutines_on_two_threads, a_stop_loses_nothing_of_what_is_received) {
  expect_no_failure([] {
    unio::thread_pool pool(2);
    unio::buffer_pool buffers(8, 1);
    stream_on s(pool);
    unio::receiving in(s.ends.first, buffers, {.window = 2});
    std::atomic<int> got{0}, ended{0};
    auto const ask = [](unio::receiving& in, std::atomic<int>& got) -> task<> {
      while (unio::lent_buffer* const next = co_await in.co_next()) {
        require(std::to_integer<int>(*next->data()) == got, "the bytes come in their order");
        ++got;
        co_await unio::co_fork();
      }
    };
    unio::stop_source stop;
    unio::async_run(pool.executor(), ask(in, got), [&](auto const&) { ++ended; }, {.stop = stop.get_token()});
    s.send(3);
    stop.request_stop();
    s.send(3);
    require(s.ends.second.close().has_value(), "it is closed");
    while (ended != 1) std::this_thread::yield();
    unio::async_run(pool.executor(), ask(in, got), [&](auto const&) { ++ended; });
    while (ended != 2) std::this_thread::yield();
    pool.join();
    require(got == 6 && !in.error(), "all have come, and the end");
  });
}

// ---- several tasks ----

TEST_P(coroutines_on_two_threads, a_group_ends_when_all_its_tasks_have) {
  expect_no_failure([] {
    unio::thread_pool pool(2);
    std::atomic<int> ended{0};
    auto const one = [](std::atomic<int>& ended) -> task<> {
      co_await unio::co_fork();
      ++ended;
    };
    auto const all = [one](std::atomic<int>& ended) -> task<> {
      unio::task_group g(co_await unio::this_coro::environment);
      for (int i = 0; i != 4; ++i) g.start(one(ended));
      co_await g.co_join();
      require(ended == 4, "all have ended");
    };
    unio::sync_wait(pool.executor(), all(ended));
    pool.join();
  });
}

TEST_P(coroutines_on_two_threads, the_first_of_several_stops_the_others) {
  expect_no_failure([] {
    unio::thread_pool pool(2);
    unio::event first, never;
    auto const both = [](unio::event& first, unio::event& never) -> task<std::size_t> {
      co_return (co_await unio::when_any(first.co_wait(), never.co_wait())).index;
    };
    std::thread setter([&] { first.set(); });
    require(unio::sync_wait(pool.executor(), both(first, never)) == 0, "the first has ended first");
    setter.join();
    pool.join();
  });
}

TEST_P(coroutines_on_two_threads, a_stop_races_work_that_runs_elsewhere) {
  expect_no_failure([] {
    unio::thread_pool here(1), there(1);
    unio::stop_source stop;
    std::atomic<int> ended{0};
    auto const work = [](unio::thread_pool& there) -> task<> {
      auto const sleep = []() -> task<> { (void)co_await unio::co_sleep(1us); };
      co_await unio::run_on(there.executor(), sleep());
    };
    unio::async_run(here.executor(), work(there), [&](auto const&) { ++ended; }, {.stop = stop.get_token()});
    stop.request_stop();
    while (ended == 0) std::this_thread::yield(); // here is not pending what is done there
    here.join();
    there.join();
    require(ended == 1, "it has ended once");
  });
}

// What a thread has that is none of the pool's counts as in flight. Its end is the last that happens.
TEST_P(coroutines_on_two_threads, a_pool_is_joined_when_the_last_ends_on_a_thread_that_is_not_its_own) {
  expect_no_failure([] {
    unio::thread_pool pool(2);
    unio::io_multiplexer& m = pool.multiplexer();
    std::latch started(1), joined(1);
    std::thread other([&] {
      m.join_in();
      unio::timer_handle t(50ms, &m);
      auto op = unio::connect(unio::async_wait(t), ignoring<void>{});
      op.start();
      started.count_down();
      std::this_thread::sleep_for(100ms); // until none looks any more what it does
      while (!op.finished()) (void)m.try_run();
      joined.wait();
    });
    started.wait();
    pool.join();
    joined.count_down();
    other.join();
  });
}

TEST_P(coroutines_on_two_threads, a_pool_is_not_over_while_the_thread_that_joins_it_runs_something) {
  expect_no_failure([] {
    std::atomic<int> ran{0};
    unio::thread_pool pool(2);
    pool.multiplexer().join_in(); // as a blocking call does
    for (int i = 0; i != 2; ++i)
      pool.post([&] {
        ++ran;
        pool.post([&] { ++ran; });
      });
    pool.join();
    require(ran == 4, "all has run that was started before the pool was over");
  });
}

TEST_P(coroutines_on_two_threads, what_another_thread_posts_that_runs_a_pool_runs_though_that_is_busy) {
  expect_no_failure([] {
    unio::thread_pool pool(1 + static_cast<int>(schedule_seed() % 2));
    pool.multiplexer().join_in(); // as a blocking call does
    std::atomic<int> busy{0};
    std::atomic<bool> ran{false};
    auto const yield = [](std::atomic<int>& busy, std::atomic<bool> const& ran) -> task<> {
      ++busy;
      while (!ran) co_await unio::co_yield_now();
    };
    for (int i = 0; i != pool.size(); ++i) unio::async_run(pool.executor(), yield(busy, ran));
    while (busy != pool.size()) std::this_thread::yield();
    pool.post([&] { ran = true; });
    while (!ran) std::this_thread::yield();
    pool.join();
  });
}

TEST_P(coroutines_on_two_threads, what_no_thread_runs_yet_ends_with_a_pool) {
  expect_no_failure([] {
    unio::thread_pool pool(2);
    unio::timer_handle never(for_ever);
    auto op = unio::connect(unio::atomic_async_wait(never), ignoring<void>{});
    op.start(&pool.multiplexer());
    pool.stop();
    pool.join();
    require(op.finished(), "it has ended");
  });
}

/// Counts its end, once.
struct counted {
  explicit counted(std::atomic<int>& of) : n(&of) {}
  counted(counted&& other) noexcept : n(std::exchange(other.n, nullptr)) {}
  ~counted() {
    if (n != nullptr) ++*n;
  }
  std::atomic<int>* n;
};

TEST_P(coroutines_on_two_threads, what_a_thread_posts_that_runs_a_pool_while_that_is_joined_is_dropped) {
  expect_no_failure([] {
    std::atomic<int> ran{0}, dropped{0};
    {
      unio::thread_pool pool(2);
      std::thread other([&] {
        pool.multiplexer().join_in(); // as a blocking call does
        for (int i = 0; i != 6; ++i) pool.post([&ran, c = counted(dropped)] { ++ran; });
      });
      pool.stop();
      pool.join();
      other.join();
    }
    require(dropped == 6 && ran <= 6, "what was posted has run or was dropped");
  });
}

// A task that is waiting for what another thread brings, when the pool is stopped.
TEST_P(coroutines_on_two_threads, a_pool_is_stopped_while_its_tasks_wait) {
  expect_no_failure([] {
    auto pair = unio::socket_handle::pair().value();
    std::atomic<int> ended{0}, ran{0}, dropped{0};
    auto const wait = [](unio::socket_handle& s, std::atomic<int>& ended) -> task<> {
      std::byte room[1];
      auto const r = co_await s.co_read(unio::mutable_buffer(room));
      require(!r.has_value() && r.error() == unio::condition::canceled, "it was cancelled");
      ++ended;
    };
    {
      unio::thread_pool pool(2);
      pair.first.set_multiplexer(&pool.multiplexer());
      unio::async_run(pool.executor(), wait(pair.first, ended));
      for (int i = 0; i != 3; ++i) pool.post([&ran, c = counted(dropped)] { ++ran; });
      std::thread other([&] { pool.stop(); });
      pool.post([&ran, c = counted(dropped)] { ++ran; });
      other.join();
      pool.join();
    }
    pair.first.set_multiplexer(nullptr);
    require(dropped == 4 && ran <= 4, "what was posted has run or was dropped");
    require(ended <= 1, "the task has ended, or was destroyed before it began");
  });
}

} // namespace
