// No allocation and no lock by when_all, when_all_succeed, when_any, timeout and task_group, once warm.

#include "alloc/counting.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

task<result<int>> result_later(int i) {
  (co_await co_no_op()).value();
  if (i == 0) co_return std::make_error_code(std::errc::io_error);
  co_return i;
}

template <class Step> void expect_nothing(Step step) {
  run([](Step& s) -> task<> {
    for (int i = 0; i != 100; ++i) co_await s();
    costs const before = test::costs_so_far();
    for (int i = 0; i != 200; ++i) co_await s();
    EXPECT_EQ(test::costs_so_far() - before, costs());
  }(step));
}

TEST(combinators_cost, when_all_of_two_ready_tasks) {
  expect_nothing([]() -> task<> { (void)co_await when_all(ready(1), ready(2)); });
}
TEST(combinators_cost, when_all_of_two_that_suspend) {
  expect_nothing([]() -> task<> { (void)co_await when_all(later(1), later(2)); });
}
TEST(combinators_cost, when_all_of_a_range) {
  expect_nothing([]() -> task<> {
    std::array<task<int>, 3> tasks{later(1), ready(2), later(3)};
    (void)co_await when_all(tasks);
  });
}
TEST(combinators_cost, when_all_succeed) {
  expect_nothing([]() -> task<> { (void)co_await when_all_succeed(result_later(1), later(2)); });
}
TEST(combinators_cost, when_all_succeed_of_which_one_fails) {
  expect_nothing([]() -> task<> { (void)co_await when_all_succeed(result_later(0), co_sleep(1h)); });
}
TEST(combinators_cost, when_all_succeed_of_a_range) {
  expect_nothing([]() -> task<> {
    std::array<task<result<int>>, 3> tasks{result_later(1), result_later(2), result_later(3)};
    (void)co_await when_all_succeed(tasks);
  });
}
TEST(combinators_cost, when_any) {
  expect_nothing([]() -> task<> { (void)co_await when_any(later(1), co_sleep(1h)); });
}
TEST(combinators_cost, timeout_that_does_not_pass) {
  expect_nothing([]() -> task<> { (void)co_await timeout(1h, later(1)); });
}
TEST(combinators_cost, timeout_that_passes) {
  expect_nothing([]() -> task<> { (void)co_await timeout(1us, co_sleep(1h)); });
}
TEST(combinators_cost, task_group) {
  expect_nothing([]() -> task<> {
    unio::task_group g(co_await this_coro::environment);
    for (int i = 0; i != 5; ++i) g.start(later(i));
    co_await g.co_join();
  });
}
TEST(combinators_cost, canary_an_allocation_is_counted) {
  costs const before = test::costs_so_far();
  delete ::new (::operator new(1)) char;
  EXPECT_EQ((test::costs_so_far() - before).allocations, 1u);
}

} // namespace
