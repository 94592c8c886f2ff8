// Programs of coroutines that a seed draws, on several threads; another one may stop them, and what runs them
// may end. However they end, nothing runs twice, all ends, and all that was taken is given back.

#include "support/any_coroutines.hpp"

#include "threads/support.hpp"

namespace {

using namespace threads_tests;
using namespace test::any_coroutines;

class any_coroutines_on_threads : public threads_on {
 protected:
  static void expect_all_back(bool (*run)(std::uint64_t seed)) {
    expect_no_failure([run] { require(run(schedule_seed()), "all is given back"); });
  }
};
ON_BOTH_SYSTEMS(any_coroutines_on_threads);

TEST_P(any_coroutines_on_threads, give_everything_back_when_a_pool_runs_them) {
  expect_all_back(run_on_a_pool);
}
TEST_P(any_coroutines_on_threads, give_everything_back_when_the_pool_ends) {
  expect_all_back(run_until_the_pool_ends);
}
TEST_P(any_coroutines_on_threads, give_everything_back_when_a_multiplexer_ends) {
  expect_all_back(run_until_the_multiplexer_ends);
}
TEST_P(any_coroutines_on_threads, give_everything_back_when_the_threads_that_run_them_come_and_go) {
  expect_all_back(run_on_threads_that_come_and_go);
}

} // namespace
