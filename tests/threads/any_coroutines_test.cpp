// Programs of coroutines that a seed draws, on several threads; another one may stop them, and what runs them
// may end. However they end, nothing runs twice, all ends, and all that was taken is given back.

#include "support/any_coroutines.hpp"

#include "threads/support.hpp"
#include "threads/watched.hpp"

#include <unio/thread_pool.hpp>

namespace {

using namespace test;
using namespace threads_tests;
using namespace test::any_coroutines;

class any_coroutines_on_threads : public threads_on {};
ON_BOTH_SYSTEMS(any_coroutines_on_threads);

task<> is_a_program(shared_things& t) {
  (void)co_await timeout(50us + 10 * t.span(), does_calmly(t, 3, false));
}

/// One to three programs, on threads that run `m`, and, unless they stay there, on one of another pool: a
/// multiplexer does not know what waits for another one, and may not end before it.
class programs {
 public:
  explicit programs(io_multiplexer& m, bool stay = false)
      : where_(m),
        elsewhere_(pool_.executor()),
        things(where_, schedule_seed(), 40, true, stay ? executor_ref() : executor_ref(elsewhere_)) {
    for (int i = 0; i != count_; ++i)
      async_run(where_, is_a_program(things), [this](task_outcome<void> const& r) { end(r); },
                {.stop = stop_.get_token()});
  }
  void stop_or_not() {
    if (things.one_in(2)) return;
    std::this_thread::sleep_for(things.span());
    stop();
  }
  void stop() { stop_.request_stop(); }
  [[nodiscard]] bool have_ended() const { return ended_ == count_; }
  void expect_all_back() {
    pool_.join();
    require(things.all_is_back(), "all is given back");
  }

 private:
  void end(task_outcome<void> const& r) {
    require(r.has_value(), "a program ends without an exception");
    require(++ended_ <= count_, "a program ends once");
  }

  thread_pool pool_{1};
  multiplexer_executor where_, elsewhere_;
  stop_source stop_;
  std::atomic<int> ended_{0};

 public:
  shared_things things;

 private:
  int const count_ = 1 + static_cast<int>(schedule_seed() % 3);
};

TEST_P(any_coroutines_on_threads, give_everything_back_when_a_pool_runs_them) {
  expect_no_failure([] {
    thread_pool pool(2);
    programs p(pool.multiplexer());
    p.stop_or_not();
    while (!p.have_ended()) std::this_thread::yield(); // the pool does not know what runs elsewhere
    pool.join();
    p.expect_all_back();
  });
}

TEST_P(any_coroutines_on_threads, give_everything_back_when_the_pool_ends) {
  expect_no_failure([] {
    std::optional<thread_pool> pool(2);
    programs p(pool->multiplexer(), true);
    std::this_thread::sleep_for(p.things.span());
    pool->stop();
    std::thread stops([&] { p.stop(); });
    stops.join();
    pool.reset();
    p.expect_all_back();
  });
}

TEST_P(any_coroutines_on_threads, give_everything_back_when_a_multiplexer_ends) {
  expect_no_failure([] {
    auto m = multiplexer(1);
    programs p(*m, true);
    for (auto n = p.things.below(60); n != 0; --n) (void)m->try_run();
    p.stop();
    m.reset();
    p.expect_all_back();
  });
}

TEST_P(any_coroutines_on_threads, give_everything_back_when_the_threads_that_run_them_come_and_go) {
  expect_no_failure([] {
    auto const m = multiplexer(3);
    programs p(*m);
    std::vector<std::thread> threads;
    for (int i = 0; i != 3; ++i)
      threads.emplace_back([&] {
        for (auto n = p.things.below(8); n != 0; --n)
          (void)(p.things.one_in(2) ? m->try_run() : m->try_run_for(p.things.span()));
      });
    p.stop_or_not();
    while (!p.have_ended()) (void)m->try_run_for(10us);
    run_to_the_end(*m);
    for (std::thread& t : threads) t.join();
    p.expect_all_back();
  });
}

} // namespace
