// The drawn programs of tests/threads and tests/simulation, on threads and a driver as they are.

#include <unio/config.hpp>

#if UNIO_HAS_EXCEPTIONS // which the programs throw

#include "support/any_coroutines.hpp"

namespace {

using namespace test::any_coroutines;

void expect_all_back(bool (*run)(std::uint64_t seed)) {
  for (std::uint64_t seed = 0; seed != 50; ++seed) ASSERT_TRUE(run(seed)) << "seed " << seed;
}

TEST(any_coroutines, give_everything_back_when_a_pool_runs_them) { expect_all_back(run_on_a_pool); }
TEST(any_coroutines, give_everything_back_when_the_pool_ends) { expect_all_back(run_until_the_pool_ends); }
TEST(any_coroutines, give_everything_back_when_a_multiplexer_ends) {
  expect_all_back(run_until_the_multiplexer_ends);
}
TEST(any_coroutines, give_everything_back_when_the_threads_that_run_them_come_and_go) {
  expect_all_back(run_on_threads_that_come_and_go);
}

} // namespace

#endif
