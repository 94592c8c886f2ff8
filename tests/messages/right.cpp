// The same, as it is to be written.
// any: 0 errors

#include <unio/task_group.hpp>
#include <unio/timeout.hpp>

#include <chrono>

unio::task<int> one() { co_return 1; }

unio::task<int> waits(unio::task_group& group, unio::timer_handle& timer) {
  using namespace std::chrono_literals;
  unio::task<int> t = one();
  int const n = co_await std::move(t);
  (void)co_await unio::co_sleep(100ms);
  (void)co_await timer.co_wait();
  t = one();
  group.start(std::move(t));
  group.start(unio::timeout(1s, timer.co_wait()));
  co_return n;
}

int main() {
  unio::task<int> t = one();
  return unio::run(std::move(t));
}
