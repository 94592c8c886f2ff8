// Lambdas that were not called, given to all else that starts one task.
// any: 3 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/thread_pool.hpp>
#include <unio/when.hpp>

#include <chrono>

unio::task<> waits(unio::thread_pool& pool) {
  using namespace std::chrono_literals;
  unio::sync_wait(pool.executor(), []() -> unio::task<> { co_return; });
  co_await unio::run_on(pool.executor(), []() -> unio::task<> { co_return; });
  co_await unio::timeout(1s, []() -> unio::task<> { co_return; });
}
