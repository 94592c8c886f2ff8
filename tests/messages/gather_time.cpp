// A span of time beside a task: the first of them is waited for.
// any: 1 error: a span or a moment is not awaitable: write unio::co_sleep(1s) in place of 1s

#include <unio/when.hpp>

#include <chrono>

unio::task<int> one() { co_return 1; }

unio::task<> waits() {
  using namespace std::chrono_literals;
  (void)co_await unio::when_any(one(), 100ms);
}
