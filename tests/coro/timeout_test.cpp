// unio/when.hpp: timeout and co_sleep.

#include "coro/waiting.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

task<io_result<void>> sleeps() { co_return co_await co_sleep(1h); }
task<int> throws_when_stopped() {
  (co_await co_sleep(1h)).value();
  co_return 1;
}
std::uint64_t started() { return this_thread::multiplexer().counters().started; }

TASK_TEST(timeout, yields_the_value_of_what_ends_in_time) {
  auto const me = std::this_thread::get_id();
  result<int> const r = co_await timeout(1h, later(3));
  EXPECT_EQ(r.value(), 3);
  EXPECT_EQ(std::this_thread::get_id(), me);
  result<void> const nothing = co_await timeout(1h, []() -> task<> { (co_await co_no_op()).value(); }());
  EXPECT_TRUE(nothing.has_value());
  int x = 4;
  auto refer = [](int& i) -> task<int&> { co_return i; };
  result<int*> const p = co_await timeout(1h, refer(x));
  EXPECT_EQ(p.value(), &x);
}

TASK_TEST(timeout, without_end_never_passes) {
  result<int> const r = co_await timeout(deadline::none(), later(3));
  EXPECT_EQ(r.value(), 3);
}

TASK_TEST(timeout, of_what_never_suspends_starts_no_timer) {
  (co_await co_no_op()).value(); // from here on run() has started what it needs itself
  auto const before = started();
  for (int i = 0; i != 100; ++i) EXPECT_EQ((co_await timeout(1h, ready(i))).value(), i);
  EXPECT_EQ(started(), before);
  (void)co_await timeout(1h, later(1));
  EXPECT_EQ(started(), before + 2); // the wait, and the bound
}

TASK_TEST(timeout, makes_a_result_timed_out) {
  auto const me = std::this_thread::get_id();
  io_result<void> const r = co_await timeout(1ms, sleeps());
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(std::this_thread::get_id(), me);
  io_result<void> const direct = co_await timeout(1ms, co_sleep(1h));
  EXPECT_EQ(direct.error(), condition::timed_out);
  result<int> const thrown = co_await timeout(1ms, throws_when_stopped());
  EXPECT_EQ(thrown.error(), condition::timed_out);
}

TASK_TEST(timeout, of_zero_or_in_the_past_begins_with_the_stop_requested) {
  for (deadline const d : {deadline::zero(), deadline(-1s), deadline(std::chrono::steady_clock::now() - 1s),
                           deadline(std::chrono::system_clock::now() - 1s)}) {
    bool requested = false;
    auto look = [](bool& r) -> task<result<int>> {
      stop_token const s = co_await this_coro::stop_token;
      r = s.stop_requested();
      co_return 5;
    };
    auto const before = started();
    result<int> const r = co_await timeout(d, look(requested));
    EXPECT_TRUE(requested);
    EXPECT_EQ(r.value(), 5); // a value beats the timer
    io_result<void> const s = co_await timeout(d, sleeps());
    EXPECT_EQ(s.error(), condition::timed_out);
    EXPECT_EQ(started(), before);
  }
}

task<> ends_when_stopped() { (void)co_await co_sleep(1h); }
task<> catches_the_stop() {
  try {
    (co_await co_sleep(1h)).value();
  } catch (std::system_error const&) { // no error to it
  }
}

TASK_TEST(timeout, of_a_task_that_swallows_its_cancellation_is_timed_out) {
  for (deadline const d : {deadline(1ms), deadline::zero()}) {
    EXPECT_EQ((co_await timeout(d, ends_when_stopped())).error(), condition::timed_out);
    EXPECT_EQ((co_await timeout(d, catches_the_stop())).error(), condition::timed_out);
  }
  // A stop of someone else's is no timeout; the task has ended as it wanted to.
  stop_source stop;
  auto bounded = []() -> task<bool> { co_return (co_await timeout(1h, ends_when_stopped())).has_value(); };
  auto stops = [](stop_source& s) -> task<> {
    (co_await co_no_op()).value();
    s.request_stop();
  };
  environment mine = co_await this_coro::environment;
  mine.stop = stop.get_token();
  bool ended_well = false;
  {
    task_group group(mine);
    group.start(bounded(), [&](task_outcome<bool> const& o) { ended_well = o.value(); });
    co_await stops(stop);
    co_await group.co_join();
  }
  EXPECT_TRUE(ended_well);
}

TASK_TEST(timeout, of_a_value_that_came_although_it_was_late_is_that_value) {
  auto succeeds = []() -> task<result<void>> {
    (void)co_await co_sleep(1h);
    co_return result<void>();
  };
  auto counts = []() -> task<int> {
    (void)co_await co_sleep(1h);
    co_return 3;
  };
  EXPECT_TRUE((co_await timeout(1ms, succeeds())).has_value());
  EXPECT_EQ((co_await timeout(1ms, counts())).value(), 3);
}

TASK_TEST(timeout, of_a_task_that_fails_after_its_stop_fails) {
  bool thrown = false;
  auto fails = []() -> task<> {
    (void)co_await co_sleep(1h);
    throw std::runtime_error("x");
  };
  try {
    (void)co_await timeout(1ms, fails());
  } catch (std::runtime_error const&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
}

TASK_TEST(timeout, lets_other_exceptions_through) {
  bool thrown = false;
  auto fails = []() -> task<int> {
    (co_await co_no_op()).value();
    throw std::runtime_error("x");
    co_return 0;
  };
  try {
    (void)co_await timeout(1h, fails());
  } catch (std::runtime_error const&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
}

TASK_TEST(timeout, nested_says_whose_bound_it_was) {
  // The inner one's: the outer one's child has a value, an error.
  io_result<void> const inner = co_await timeout(1h, timeout(1ms, sleeps()));
  EXPECT_EQ(inner.error(), condition::timed_out);
  // The outer one's: to the inner one it is a stop.
  std::error_code seen;
  auto watch = [](std::error_code& e) -> task<io_result<void>> {
    auto const r = co_await timeout(1h, sleeps());
    e = r.error();
    co_return r;
  };
  io_result<void> const outer = co_await timeout(1ms, watch(seen));
  EXPECT_EQ(outer.error(), condition::timed_out);
  EXPECT_EQ(seen, condition::canceled);
}

TEST(timeout, that_is_stopped_from_outside_is_no_timeout) {
  stop_source stop;
  run(
      [](stop_source& s) -> task<> {
        auto [r, q] = co_await when_all(timeout(1h, sleeps()), timeout(1h, sleeps()), asks_to_stop(s));
        EXPECT_EQ(r.error(), condition::canceled);
        EXPECT_EQ(q.error(), condition::canceled);
        io_result<void> const late = co_await timeout(1ms, sleeps());
        EXPECT_EQ(late.error(), condition::canceled);
        bool thrown = false;
        try {
          (void)co_await timeout(1ms, throws_when_stopped());
        } catch (std::system_error const& e) {
          thrown = e.code() == condition::canceled;
        }
        EXPECT_TRUE(thrown);
      }(stop),
      {.stop = stop.get_token()});
}

TEST(timeout, returns_the_bytes_that_came_in_time) {
  auto [reader, writer] = pipe_handle::anonymous().value();
  run([](pipe_handle& in, pipe_handle& out) -> task<> {
    std::array<char, 8> room{};
    io_result<mutable_buffers> const none = co_await timeout(1ms, in.co_read(mutable_buffer(room)));
    EXPECT_EQ(none.error(), condition::timed_out);
    (void)out.write(std::string_view("abc"));
    io_result<mutable_buffers> const some = co_await timeout(1h, in.co_read(mutable_buffer(room)));
    EXPECT_EQ(some.bytes_transferred(), 3u);
  }(reader, writer));
}

TASK_TEST(timeout, keeps_the_bytes_of_a_composed_operation_that_it_stopped) {
  auto half = []() -> task<io_result<void>> {
    auto const r = co_await co_sleep(1h);
    co_return io_result<void>(r.error(), 5);
  };
  io_result<void> const r = co_await timeout(1ms, half());
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.bytes_transferred(), 5u);
}

TEST(timeout, that_is_destroyed_takes_its_timer_along) {
  auto const before = this_thread::multiplexer().counters();
  {
    auto waits = []() -> task<> { (void)co_await timeout(1h, timeout(1h, sleeps())); };
    test::chain r(this_thread::multiplexer(), waits());
    r.start();
  }
  auto const after = this_thread::multiplexer().counters();
  EXPECT_EQ(after.started - before.started, 3u);
  EXPECT_EQ(after.finished - before.finished, 3u);
}

// Several threads run one multiplexer: the child and the timer end on any of them. `round(span)`, many times,
// in many tasks.
template <class Round> void on_several_threads(Round round) {
  constexpr int threads = 3, tasks = 60, rounds = 20;
  auto const m = io_multiplexer::best_available(threads).value();
  std::atomic<int> ended{0};
  auto one = [&](int i) -> task<> {
    for (int n = 0; n != rounds; ++n) co_await round(std::chrono::microseconds((i * 7 + n) % 40));
    ++ended;
  };
  for (int i = 0; i != tasks; ++i) async_run(*m, one(i));
  test::threads pool(threads, [&] {
    while (ended != tasks) (void)m->try_run_for(10ms);
  });
  pool.join();
  EXPECT_EQ(ended, tasks);
}

TEST(timeout, is_exact_when_several_threads_run_the_multiplexer) {
  on_several_threads([](std::chrono::microseconds span) -> task<> {
    io_result<void> const r = co_await timeout(span, co_sleep(20us));
    EXPECT_TRUE(r.has_value() || r.error() == condition::timed_out);
  });
}

// The task swallows the stop: only the timeout can tell.
TEST(timeout, is_reported_on_several_threads_whenever_its_stop_reached_the_task) {
  on_several_threads([](std::chrono::microseconds span) -> task<> {
    bool was_stopped = false;
    auto naps = [](bool& stopped) -> task<> {
      stopped = (co_await co_sleep(20us)).error() == condition::canceled;
    };
    result<void> const r = co_await timeout(span, naps(was_stopped));
    EXPECT_TRUE(r.has_value() || r.error() == condition::timed_out);
    EXPECT_TRUE(!was_stopped || !r.has_value()) << "only the timer stops it";
  });
}

// The executor has no multiplexer: the timer's end arrives there from wherever it runs.
TEST(timeout, races_with_stops_from_another_thread) {
  for (int i = 0; i != 300; ++i) {
    stop_source stop;
    std::thread other([&] { stop.request_stop(); });
    run(
        []() -> task<> {
          io_result<void> const r = co_await timeout(50us, sleeps());
          EXPECT_TRUE(r.error() == condition::timed_out || r.error() == condition::canceled);
        }(),
        {.stop = stop.get_token()});
    other.join();
  }
}

TASK_TEST(co_sleep, waits_for_a_span_and_for_a_moment) {
  EXPECT_TRUE((co_await co_sleep(1us)).has_value());
  auto const t = std::chrono::steady_clock::now() + 1ms;
  EXPECT_TRUE((co_await co_sleep(t)).has_value());
  EXPECT_GE(std::chrono::steady_clock::now(), t);
  EXPECT_TRUE((co_await co_sleep(0s)).has_value());
}

} // namespace
