// A span of time, awaited.
// any: 1 error: a span or a moment is not awaitable: write unio::co_sleep(1s) in place of 1s

#include <unio/task.hpp>

#include <chrono>

unio::task<> waits() {
  using namespace std::chrono_literals;
  co_await 100ms;
}
