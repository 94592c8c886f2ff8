// A thread of a shared multiplexer is away, with something in flight, while another one that runs it takes
// that over: under every seed each receiver is called once, also if a third thread, or the one that comes
// back, cancels, closes, destroys or ends at that moment.

#include "support/test.hpp"
#include "threads/support.hpp"
#include "threads/watched.hpp"

#include <latch>

namespace {

using namespace test;
using namespace threads_tests;

/// A thread that runs `m`, has started what `start` starts, and does something else: for about as long as
/// others take to find that out.
template <class Start, class Back> class absentee {
 public:
  absentee(io_multiplexer& m, Start start, Back back)
      : thread_([this, &m, start, back] {
          (void)m.try_run();
          start();
          (void)m.try_run();
          started_.count_down();
          std::this_thread::sleep_for(2ms);
          back();
        }) {
    started_.wait();
  }
  void join() { thread_.join(); }

 private:
  std::latch started_{1};
  std::thread thread_;
};

/// Another thread that runs it, until nothing is pending.
class runner {
 public:
  explicit runner(io_multiplexer& m)
      : forever_(for_ever, &m), keep_(unio::atomic_async_wait(forever_)), thread_([this, &m] {
          (void)m.try_run();
          keep_.start();
          runs_.count_down();
          run_to_the_end(m);
        }) {
    runs_.wait();
  }
  void join() {
    keep_.cancel();
    thread_.join();
    keep_.expect_ended_with(condition::canceled);
  }

 private:
  unio::timer_handle forever_;
  watched<unio::atomic_async_wait> keep_;
  std::latch runs_{1};
  std::thread thread_;
};

class taking : public threads_on {};

SEEDED_TEST_P(taking, what_a_thread_has_that_is_away_ends_once) {
  shareable r(*m);
  runner other(*m);
  absentee a(*m, [&] { r.op.start(); }, [&] { run_to_the_end(*m); });
  r.write();
  while (r.op.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  r.op.expect_success();
  require(m->run().value() == 0, "nothing is pending");
}

// Soon, and not when its thread comes back.
void expect_it_goes_on(shareable& r) {
  r.write();
  for (int i = 0; r.op.ends == 0 && i != 50; ++i) std::this_thread::sleep_for(1ms);
  require(r.op.ends != 0, "it goes on while its thread is away");
}

// What a thread has that goes away, whatever it has done before.
void goes_on_soon_though_its_thread(void (*does)(unio::io_multiplexer&)) {
  auto const m = multiplexer(2);
  shareable r(*m);
  runner other(*m);
  std::this_thread::sleep_for(50ms); // it does not look any more what others do
  std::latch is_away{1};
  std::thread away([&] {
    (void)m->try_run();
    r.op.start();
    does(*m);
    is_away.count_down();
    std::this_thread::sleep_for(100ms);
    run_to_the_end(*m);
  });
  is_away.wait();
  std::this_thread::sleep_for(100us); // the other one looks, and finds that it waits
  expect_it_goes_on(r);
  other.join();
  away.join();
  r.op.expect_success();
}

// A thread that has only come, and goes away, has not been away since long before.
TEST_P(taking, goes_on_soon_though_its_thread_has_only_come) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its ring does not say that something has come";
  expect_no_failure([] { goes_on_soon_though_its_thread([](auto& m) { (void)m.try_run(); }); });
}

// Nor has one that was in its run() for long, asleep.
TEST_P(taking, goes_on_soon_though_its_thread_has_slept_for_long) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its ring does not say that something has come";
  expect_no_failure([] { goes_on_soon_though_its_thread([](auto& m) { (void)m.try_run_for(1s); }); });
}

// Nor does it matter that the one which would be asked first to look is away as well.
TEST_P(taking, goes_on_soon_though_another_thread_is_away_too) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its ring does not say that something has come";
  expect_no_failure([] {
    auto const m = multiplexer(3);
    shareable r(*m);
    std::latch has_come{1}, all_here{1}, is_away{1};
    std::thread away([&] {
      (void)m->try_run();
      has_come.count_down();
      all_here.wait();
      r.op.start();
      (void)m->try_run();
      is_away.count_down();
      std::this_thread::sleep_for(100ms);
      run_to_the_end(*m);
    });
    has_come.wait();
    m->join_in();
    runner other(*m);
    std::this_thread::sleep_for(50ms); // it does not look any more what others do
    all_here.count_down();
    is_away.wait();
    std::this_thread::sleep_for(100us); // the other one looks, and finds that it waits
    expect_it_goes_on(r);
    other.join();
    away.join();
    r.op.expect_success();
  });
}

// Of several that sleep one looks. When that one leaves run(), another does.
TEST_P(taking, goes_on_though_the_thread_that_looked_has_left) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its ring does not say that something has come";
  expect_no_failure([] {
    auto const m = multiplexer(3);
    shareable r(*m);
    std::latch is_away{1};
    std::thread away([&] {
      (void)m->try_run();
      r.op.start();
      (void)m->try_run();
      is_away.count_down();
      std::this_thread::sleep_for(200ms);
      run_to_the_end(*m);
    });
    is_away.wait();
    std::thread looks([&] {
      (void)m->try_run_for(5ms);
      std::this_thread::sleep_for(200ms); // its end would have another one look
    });
    std::this_thread::sleep_for(2ms);
    runner other(*m);
    std::this_thread::sleep_for(20ms);
    expect_it_goes_on(r);
    looks.join();
    other.join();
    away.join();
    r.op.expect_success();
  });
}

// The end of what a third thread has just asked something waits for that request, which its thread no longer
// takes.
TEST_P(taking, the_end_that_waits_for_a_request_is_notified_though_its_thread_goes_away) {
  if (GetParam() == system_kind::simulated) GTEST_SKIP() << "its ring does not say that something has come";
  expect_no_failure([] {
    auto const m = multiplexer(2);
    shareable r(*m);
    runner other(*m);
    std::latch started{1};
    std::thread away([&] {
      (void)m->try_run();
      r.op.start();
      (void)m->try_run();
      started.count_down();
      (void)m->try_run();
      std::this_thread::sleep_for(200ms);
      run_to_the_end(*m);
    });
    started.wait();
    r.write();
    r.op.cancel();
    for (int i = 0; r.op.ends == 0 && i != 100; ++i) std::this_thread::sleep_for(1ms);
    require(r.op.ends != 0, "its end is notified");
    other.join();
    away.join();
    r.op.expect_ended_once();
  });
}

TEST_P(taking, run_says_0_only_when_an_end_that_waits_for_a_request_is_notified) {
  expect_no_failure([] {
    auto const m = multiplexer(2);
    shareable r(*m);
    absentee a(*m, [&] { r.op.start(); }, [&] { run_to_the_end(*m); });
    r.write();
    std::thread third([&] { r.op.cancel(); });
    run_to_the_end(*m);
    require(r.op.ends == 1, "its end was notified");
    third.join();
    a.join();
  });
}

// Its thread's kernel still had it when it was taken.
SEEDED_TEST_P(taking, the_byte_after_that_is_for_the_next_read) {
  shareable r(*m);
  runner other(*m);
  absentee a(*m, [&] { r.op.start(); }, [&] { run_to_the_end(*m); });
  r.write();
  while (r.op.ends == 0) std::this_thread::yield();
  std::byte room[1];
  watched next(unio::atomic_async_read(r.ends.first, unio::mutable_buffer(room)));
  next.start(m.get());
  r.write();
  while (next.ends == 0) std::this_thread::sleep_for(100us);
  other.join();
  a.join();
  r.op.expect_success();
  next.expect_success();
}

SEEDED_TEST_P(taking, a_third_thread_cancels_it_meanwhile) {
  shareable r(*m), q(*m);
  runner other(*m);
  absentee a(
      *m,
      [&] {
        r.op.start();
        q.op.start();
      },
      [&] { run_to_the_end(*m); });
  q.write(); // so that there is something to go on with
  std::this_thread::sleep_for(1ms);
  r.op.cancel();
  while (r.op.ends == 0 || q.op.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  r.op.expect_ended_with(condition::canceled);
  q.op.expect_success();
}

SEEDED_TEST_P(taking, a_third_thread_closes_its_handle_meanwhile) {
  shareable r(*m), q(*m);
  runner other(*m);
  absentee a(
      *m,
      [&] {
        r.op.start();
        q.op.start();
      },
      [&] { run_to_the_end(*m); });
  q.write();
  std::this_thread::sleep_for(1ms);
  r.close();
  while (q.op.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  q.op.expect_success();
}

SEEDED_TEST_P(taking, its_thread_comes_back_and_cancels_or_closes) {
  shareable r(*m), q(*m), s(*m);
  runner other(*m);
  absentee a(
      *m,
      [&] {
        r.op.start();
        q.op.start();
        s.op.start();
      },
      [&] {
        r.op.cancel();
        s.close();
        run_to_the_end(*m);
      });
  q.write();
  while (r.op.ends == 0 || q.op.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  r.op.expect_ended_with(condition::canceled);
  q.op.expect_success();
}

SEEDED_TEST_P(taking, its_thread_comes_back_and_destroys_it) {
  shareable q(*m);
  std::optional<shareable> r(std::in_place, *m);
  runner other(*m);
  absentee a(
      *m,
      [&] {
        r->op.start();
        q.op.start();
      },
      [&] {
        r.reset();
        run_to_the_end(*m);
      });
  q.write();
  while (q.op.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  q.op.expect_success();
}

/// A receiver that takes long.
struct computes {
  std::function<void()> f;
  template <class Result> void set_value(Result&&) noexcept { f(); }
  void set_done() noexcept {}
};

// Its end may be another thread's by then.
SEEDED_TEST_P(taking, what_is_destroyed_is_waited_for_though_another_ends_it) {
  (void)m->try_run();
  std::optional<shareable> r(std::in_place, *m);
  connection c(*m);
  std::byte room[1];
  runner other(*m);
  io_multiplexer const* const mine = &m->of_this_thread();
  unio::io_operation const* op = &r->op;
  auto long_one =
      unio::connect(unio::atomic_async_read(c.ends.first, unio::mutable_buffer(room)), computes{[&] {
                      for (int i = 0; op != nullptr && op->multiplexer() == mine && i != 30; ++i)
                        std::this_thread::sleep_for(100us);
                    }});
  long_one.start();
  r->op.start();
  (void)m->try_run();
  c.write();
  r.reset();
  op = nullptr;
  while (!long_one.finished()) (void)m->try_run_for(1ms);
  other.join();
}

SEEDED_TEST_P(taking, its_thread_ends_meanwhile) {
  shareable r(*m), q(*m);
  runner other(*m);
  absentee a(
      *m,
      [&] {
        r.op.start();
        q.op.start();
      },
      [] {});
  q.write();
  a.join();
  r.write();
  while (r.op.ends == 0 || q.op.ends == 0) std::this_thread::yield();
  other.join();
  r.op.expect_success();
  q.op.expect_success();
}

SEEDED_TEST_P(taking, a_timer_of_a_thread_that_is_away_fires_once) {
  unio::timer_handle t(2ms, m.get());
  watched<unio::atomic_async_wait> tick{unio::atomic_async_wait(t)};
  runner other(*m);
  absentee a(*m, [&] { tick.start(); }, [&] { run_to_the_end(*m); });
  while (tick.ends == 0) std::this_thread::yield();
  other.join();
  a.join();
  tick.expect_success();
}

SEEDED_TEST_P(taking, results_behind_a_long_receiver_are_delivered_once) {
  shareable r(*m), q(*m);
  runner other(*m);
  std::latch posted(1);
  require(m->post([&] {
             r.op.start();
             q.op.start();
             posted.count_down();
           }).has_value(),
          "it is posted");
  posted.wait();
  require(m->post([] { std::this_thread::sleep_for(3ms); }).has_value(), "it is posted");
  r.write();
  q.write();
  std::thread third([&] { run_to_the_end(*m); });
  while (r.op.ends == 0 || q.op.ends == 0) std::this_thread::yield();
  other.join();
  third.join();
  r.op.expect_success();
  q.op.expect_success();
}

ON_BOTH_SYSTEMS(taking);

} // namespace
