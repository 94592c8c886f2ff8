// A task, an operation, a bound and a sleep that are not awaited.
// any: 4 warnings: it begins when it is awaited: write co_await

#include <unio/run.hpp>
#include <unio/socket_handle.hpp>
#include <unio/when.hpp>

#include <chrono>

unio::task<> one() { co_return; }

unio::task<> two(unio::socket_handle& s) {
  std::byte some[4];
  one();
  s.co_read(some);
  unio::timeout(std::chrono::seconds(1), one());
  unio::co_sleep(std::chrono::seconds(1));
  co_return;
}
