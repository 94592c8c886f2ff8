// connect.hpp, the atomic_ forms: operations that other threads start, cancel and destroy. When they have
// finished for other threads than the receiver's, and what a stop does that comes while one is being started.
//
// That requests of other threads race completions is in multiplexer_test.cpp.

#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/forwarding.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <latch>

namespace {

using namespace test;

class atomic_on : public test::on_each_driver {
 protected:
  watchdog watchdog_;
  unio::timer_handle timer(unio::deadline d) { return unio::timer_handle(d, m_.get()); }
};

UNIO_ON_BOTH_DRIVERS(atomic_on);

// Runs on the thread of the multiplexer until `done`, which another thread makes true.
template <class Done> void run_until(io_multiplexer& m, Done done) {
  while (!done()) ASSERT_TRUE(m.try_run_for(1ms).has_value());
}

struct on_done {
  std::function<void()> f;
  void set_value(unio::io_result<void>&&) noexcept {}
  void set_done() noexcept {
    if (f) std::exchange(f, {})();
  }
};
using connection = unio::io_operation_connection<unio::atomic_async_wait, on_done>;

// ---- finished, for whom -----------------------------------------------------------------------------------

TEST_P(atomic_on, an_atomic_form_finishes_for_other_threads_when_set_done_has_returned) {
  unio::timer_handle t = timer(1ms);
  connection op(unio::atomic_async_wait(t), on_done{});
  std::latch inside(1), looked(1);
  bool finished_here = false, in_flight_here = true;
  op.receiver().f = [&] {
    finished_here = op.finished();
    in_flight_here = op.in_flight();
    inside.count_down();
    looked.wait();
  };
  bool finished_there = true, in_flight_there = false, completed_there = false;
  std::thread other([&] {
    inside.wait();
    finished_there = op.finished();
    in_flight_there = op.in_flight();
    completed_there = op.completed();
    looked.count_down();
    while (!op.finished()) std::this_thread::yield();
    op.reset();
  });
  op.start();
  run_until(*m_, [&] { return !op.started(); });
  other.join();
  EXPECT_TRUE(finished_here);
  EXPECT_FALSE(in_flight_here);
  EXPECT_FALSE(finished_there);
  EXPECT_TRUE(in_flight_there);
  EXPECT_TRUE(completed_there);
}

// What another thread does to an operation whose receiver is inside set_done.
void while_set_done_runs(io_multiplexer& m, unio::timer_handle& t,
                         std::function<void(std::unique_ptr<connection>&)> const& act) {
  auto op = std::make_unique<connection>(unio::atomic_async_wait(t), on_done{});
  std::latch inside(1);
  std::atomic<bool> acts = false, returned = false, acted_too_early = false;
  op->receiver().f = [&] {
    inside.count_down();
    while (!acts) std::this_thread::yield();
    std::this_thread::sleep_for(20ms); // so that the other thread is early, if it does not wait
    returned = true;
  };
  std::atomic<bool> over = false;
  std::thread other([&] {
    inside.wait();
    acts = true;
    act(op);
    if (!returned) acted_too_early = true;
    over = true;
  });
  op->start();
  run_until(m, [&] { return over.load(); });
  other.join();
  EXPECT_FALSE(acted_too_early);
}

TEST_P(atomic_on, an_atomic_form_that_another_thread_destroys_waits_for_set_done) {
  unio::timer_handle t = timer(1ms);
  while_set_done_runs(*m_, t, [](std::unique_ptr<connection>& op) { op.reset(); });
}

TEST_P(atomic_on, an_atomic_form_that_another_thread_resets_waits_for_set_done) {
  unio::timer_handle t = timer(1ms);
  while_set_done_runs(*m_, t, [](std::unique_ptr<connection>& op) { op->reset(); });
}

TEST_P(atomic_on, an_atomic_form_that_another_thread_moves_waits_for_set_done) {
  unio::timer_handle t = timer(1ms);
  while_set_done_runs(*m_, t, [](std::unique_ptr<connection>& op) {
    connection const moved(std::move(*op));
    EXPECT_TRUE(moved.finished());
  });
}

// ---- two threads that wait for each other -----------------------------------------------------------------

// A thread's own multiplexer, with a read that the kernel has.
struct thread_of_its_own {
  explicit thread_of_its_own(char const* driver)
      : m(make_multiplexer(driver).value()),
        pipe(pipe_on(m.get())),
        op(std::in_place, unio::atomic_async_read(pipe.reader, unio::mutable_buffer(&byte, 1)), ignore{}) {}
  std::unique_ptr<io_multiplexer> m;
  unio::anonymous_pipe pipe;
  char byte = 0;
  std::optional<unio::io_operation_connection<unio::atomic_async_read, ignore>> op;
};

using act_on = void (*)(thread_of_its_own& others);

// Each does something to what the other one runs, and runs its own until both have.
void to_each_other(std::string const& driver, act_on first, act_on second) {
  thread_of_its_own a(driver.c_str()), b(driver.c_str());
  std::latch begun(2);
  std::atomic<int> left{2};
  auto const run = [&](thread_of_its_own& mine, act_on act, thread_of_its_own& others) {
    mine.op->start();
    (void)mine.m->try_run();
    begun.arrive_and_wait();
    act(others);
    --left;
    while (left != 0) (void)mine.m->try_run_for(1ms);
    mine.m.reset();
  };
  std::thread one([&] { run(a, first, b); }), other([&] { run(b, second, a); });
  one.join();
  other.join();
}

TEST_P(atomic_on, two_threads_may_destroy_what_the_other_one_runs) {
  constexpr act_on destroy = [](thread_of_its_own& others) { others.op.reset(); };
  to_each_other(GetParam(), destroy, destroy);
}

TEST_P(atomic_on, one_thread_may_destroy_what_the_other_one_runs_while_that_closes_what_it_reads) {
  to_each_other(
      GetParam(), [](thread_of_its_own& others) { others.op.reset(); },
      [](thread_of_its_own& others) { EXPECT_TRUE(others.pipe.reader.close()); });
}

// ---- what set_done may do ---------------------------------------------------------------------------------

TEST_P(atomic_on, an_atomic_form_may_be_destroyed_inside_set_done) {
  unio::timer_handle t = timer(1ms);
  bool destroyed = false;
  auto* const op = new connection(unio::atomic_async_wait(t), on_done{});
  op->receiver().f = [&] {
    delete op;
    destroyed = true;
  };
  op->start();
  run_until(*m_, [&] { return destroyed; });
}

TEST_P(atomic_on, an_atomic_form_may_be_restarted_inside_set_done) {
  unio::timer_handle t = timer(1ms);
  connection op(unio::atomic_async_wait(t), on_done{});
  int ends = 0;
  std::function<void()> again = [&] {
    if (++ends == 5) return;
    op.receiver().f = again;
    op.reset();
    op.start();
  };
  op.receiver().f = again;
  op.start();
  run_until(*m_, [&] { return ends == 5 && op.finished(); });
}

TEST_P(atomic_on, an_atomic_form_may_be_moved_inside_set_done) {
  unio::timer_handle t = timer(1ms);
  connection op(unio::atomic_async_wait(t), on_done{});
  std::optional<connection> moved;
  op.receiver().f = [&] { moved.emplace(std::move(op)); };
  op.start();
  run_until(*m_, [&] { return moved.has_value(); });
  EXPECT_TRUE(moved->finished());
  EXPECT_TRUE(moved->result().has_value());
}

TEST(atomic_form, that_cannot_be_started_may_be_destroyed_by_another_thread) {
  watchdog const w;
  auto m = unio::io_multiplexer::best_available(1).value();
  unio::timer_handle t(1h, m.get());
  m.reset(); // operations on it end at once
  auto op = std::make_unique<connection>(unio::atomic_async_wait(t), on_done{});
  std::latch inside(1);
  std::atomic<bool> returned = false;
  op->receiver().f = [&] {
    inside.count_down();
    std::this_thread::sleep_for(20ms);
    returned = true;
  };
  std::thread starter([&] { op->start(); });
  inside.wait();
  op.reset();
  EXPECT_TRUE(returned);
  starter.join();
}

// ---- a stop while it is being started ---------------------------------------------------------------------

// Has something happen between the moment from which an operation counts as started and the one at which its
// multiplexer gets it.
class late_multiplexer final : public test::forwarding_multiplexer {
 public:
  late_multiplexer(io_multiplexer& real, std::function<void(unio::io_operation&)> before)
      : forwarding_multiplexer(real), before_(std::move(before)) {}
  void start(unio::io_operation& op) noexcept override {
    adopt(op, real_);
    before_(op);
    real_.start(op);
  }

 private:
  std::function<void(unio::io_operation&)> before_;
};

TEST_P(atomic_on, a_cancel_that_overtakes_the_start_on_another_thread_ends_the_operation) {
  unio::timer_handle keeps = timer(1h), never(1h);
  test::started const keep{unio::async_wait(keeps)};
  (void)m_->try_run(); // this thread runs it from now on
  std::atomic<int> step = 0;
  late_multiplexer late(*m_, [&](unio::io_operation& op) {
    op.cancel();
    step = 1;
    while (step != 2) std::this_thread::yield(); // until the multiplexer has looked at the cancel
  });
  test::watched op{unio::atomic_async_wait(never)};
  std::thread starter([&] { op.start(&late); });
  run_until(*m_, [&] { return step == 1; });
  (void)m_->try_run();
  step = 2;
  starter.join();
  run_until(*m_, [&] { return op.finished(); });
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
}

TEST_P(atomic_on, a_cancel_by_another_thread_before_any_thread_runs_the_multiplexer_ends_the_operation) {
  unio::timer_handle never(1h);
  late_multiplexer late(*m_, [&](unio::io_operation& op) { std::thread([&] { op.cancel(); }).join(); });
  test::watched op{unio::atomic_async_wait(never)};
  op.start(&late);
  run_until(*m_, [&] { return op.finished(); });
  test::expect_ended_once(op);
  EXPECT_EQ(op.error, condition::canceled);
}

TEST_P(atomic_on, an_atomic_form_is_cancelled_as_soon_as_it_counts_as_started_on_a_shared_multiplexer) {
  constexpr int rounds = 300;
  auto const m = test::make_multiplexer(GetParam().c_str(), 2).value();
  for (int i = 0; i < rounds; ++i) {
    unio::timer_handle never(1h, m.get());
    test::watched op{unio::atomic_async_wait(never)};
    std::thread canceller([&] {
      while (!op.started()) std::this_thread::yield();
      op.cancel();
    });
    op.start();
    run_until(*m, [&] { return op.finished(); });
    canceller.join();
    EXPECT_EQ(op.error, condition::canceled);
  }
}

} // namespace
