// Values that are themselves errors, results or anything, carried by all that carries values: none is taken
// for a failure.

#include "support/tasks.hpp"
#include "support/test.hpp"

#include <any>
#include <expected>

namespace {

using namespace test;

template <class T> T sample();
template <> std::error_code sample() { return make_error_code(error::truncated); }
template <> error sample() { return error::truncated; }
template <> result<int> sample() { return 3; }
template <> result<std::error_code> sample() {
  return result<std::error_code>(std::in_place, make_error_code(error::truncated));
}
template <> std::expected<bool, std::error_code> sample() { return false; }
template <> std::exception_ptr sample() { return nullptr; }
#ifndef __clang__
template <> std::any sample() { return 3; }
#endif

template <class T> task<T> gives() {
  (void)co_await co_no_op();
  co_return sample<T>();
}

template <class T> class values : public ::testing::Test {};
using kinds = ::testing::Types<std::error_code, error, result<int>, result<std::error_code>,
                               std::expected<bool, std::error_code>, std::exception_ptr
#ifndef __clang__ // which finds no way to move libstdc++ 12's std::expected<std::any, E>
                               ,
                               std::any
#endif
                               >;
TYPED_TEST_SUITE(values, kinds);

TYPED_TEST(values, pass_through_a_channel) {
  using T = TypeParam;
  run([]() -> task<> {
    channel<T> c(2);
    T const kept = sample<T>();
    result<void> const moved = co_await c.co_send(sample<T>());
    result<void> const copied = co_await c.co_send(kept);
    EXPECT_TRUE(moved.has_value() && copied.has_value());
    result<T> const first = co_await c.co_receive();
    EXPECT_TRUE(first.has_value());
    result<T> const second = c.try_receive();
    EXPECT_TRUE(second.has_value());
    EXPECT_EQ(c.try_receive().error(), condition::would_block);
    c.close();
    result<T> const end = co_await c.co_receive();
    EXPECT_EQ(end.error(), condition::end_of_stream);
    EXPECT_EQ(c.try_receive().error(), condition::end_of_stream);
  }());
}

TYPED_TEST(values, of_a_task_in_time_are_no_failure) {
  using T = TypeParam;
  run([]() -> task<> {
    auto const r = co_await timeout(1h, gives<T>());
    EXPECT_TRUE(r.has_value());
    auto const late = co_await timeout(0s, gives<T>());
    EXPECT_TRUE(late.has_value()) << "a value beats the timer";
  }());
}

TYPED_TEST(values, of_several_tasks_arrive) {
  using T = TypeParam;
  run([]() -> task<> {
    auto const any = co_await when_any(gives<T>());
    EXPECT_TRUE(std::get<0>(any.outcomes).has_value());
    (void)co_await when_all(gives<T>(), gives<T>());
    auto const [outcome] = co_await when_all_outcomes(gives<T>());
    EXPECT_TRUE(outcome.has_value());
    std::vector<task<T>> tasks;
    tasks.push_back(gives<T>());
    auto const first = co_await when_any(tasks);
    EXPECT_EQ(first.index, 0u);
    bool told = false;
    task_group g(co_await this_coro::environment);
    g.start(gives<T>(), [&told](task_outcome<T> const& o) { told = o.has_value(); });
    co_await g.co_join();
    EXPECT_TRUE(told);
  }());
}

// A std::expected is no result: it may be made of an error and hold a value.
TASK_TEST(timeout, of_an_expected_that_came_too_late_never_invents_a_value) {
  auto waits = []() -> task<std::expected<bool, std::error_code>> {
    io_result<void> const r = co_await co_sleep(1h);
    if (!r.has_value()) co_return std::unexpected(r.error());
    co_return true;
  };
  result<std::expected<bool, std::error_code>> const r = co_await timeout(1ms, waits());
  EXPECT_TRUE(r.has_value());
  EXPECT_FALSE(r->has_value()) << "nothing was waited for to its end";
}

TASK_TEST(timeout, of_a_result_of_an_error_is_timed_out) {
  auto waits = []() -> task<result<std::error_code>> {
    io_result<void> const r = co_await co_sleep(1h);
    co_return r.error();
  };
  result<std::error_code> const r = co_await timeout(1ms, waits());
  EXPECT_FALSE(r.has_value());
  EXPECT_EQ(r.error(), condition::timed_out);
}

} // namespace
