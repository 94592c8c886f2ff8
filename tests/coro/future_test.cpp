// future.hpp: the results of tasks as std::future.

#include "support/test.hpp"

#include <unio/future.hpp>

#include <future>

namespace {

using namespace test;

task<std::unique_ptr<int>> makes_later(int value) {
  (void)co_await unio::co_sleep(2ms);
  co_return std::make_unique<int>(value);
}

TEST(future, has_the_value_of_a_task_that_another_thread_runs) {
  unio::thread_pool pool(1);
  std::future<std::unique_ptr<int>> f = future_of(pool.executor(), makes_later(7));
  EXPECT_EQ(*f.get(), 7);
  std::future<void> nothing = future_of(pool.executor(), []() -> task<> { co_return; }());
  nothing.get();
}

TEST(future, has_the_reference_of_a_task) {
  int number = 3;
  auto const refers = [&]() -> task<int&> { co_return number; };
  unio::thread_pool pool(1);
  EXPECT_EQ(&future_of(pool.executor(), refers()).get(), &number);
}

TEST(future, is_ready_once_its_own_thread_has_run_the_task) {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto f = future_of(m, makes_later(5));
  EXPECT_EQ(f.wait_for(0ms), std::future_status::timeout);
  while (f.wait_for(0ms) != std::future_status::ready) ASSERT_TRUE(m.run());
  EXPECT_EQ(*f.get(), 5);
}

TEST(future, is_of_an_operation_too_whose_errors_are_values) {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto ends = unio::pipe_handle::anonymous().value();
  char c = 0;
  auto f = future_of(m, ends.reader.co_read(unio::mutable_buffer(&c, 1), 2ms));
  while (f.wait_for(0ms) != std::future_status::ready) ASSERT_TRUE(m.run());
  EXPECT_EQ(f.get().error(), unio::condition::timed_out);
}

TEST(future, is_stopped_by_the_options) {
  unio::thread_pool pool(1);
  unio::stop_source stop;
  auto const sleeps = []() -> task<std::error_code> { co_return (co_await unio::co_sleep(1h)).error(); };
  auto f = future_of(pool.executor(), sleeps(), {.stop = stop.get_token()});
  stop.request_stop();
  EXPECT_EQ(f.get(), unio::condition::canceled);
}

#ifdef __cpp_exceptions
TEST(future, has_the_exception_that_left_the_task) {
  unio::thread_pool pool(1);
  auto const fails = []() -> task<int> {
    (void)co_await unio::co_sleep(1ms);
    throw std::runtime_error("no");
  };
  auto f = future_of(pool.executor(), fails());
  EXPECT_THROW(f.get(), std::runtime_error);
}

TEST(future, of_a_task_that_never_began_is_a_broken_promise) {
  std::future<int> f;
  {
    auto const m = unio::io_multiplexer::best_available(1).value();
    f = future_of(*m, []() -> task<int> { co_return 1; }());
  }
  try {
    (void)f.get();
    ADD_FAILURE();
  } catch (std::future_error const& e) {
    EXPECT_EQ(e.code(), std::future_errc::broken_promise);
  }
}
#endif

} // namespace
