// A span of time, run.
// any: 1 error: a span or a moment is not awaitable: write unio::co_sleep(1s) in place of 1s

#include <unio/run.hpp>
#include <unio/when.hpp>

#include <chrono>

int main() {
  using namespace std::chrono_literals;
  unio::run(100ms);
}
