// The same, as it is to be written.
// any: 0 errors

#include <unio/task_group.hpp>
#include <unio/when.hpp>

#include <chrono>
#include <functional>
#include <vector>

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

unio::task<> gathers(std::vector<unio::task<int>> tasks, std::vector<unio::task<int>> const& none) {
  using namespace std::chrono_literals;
  unio::task<int> t = one();
  auto const [x, y] = co_await unio::when_all(std::move(t), one());
  (void)co_await unio::when_all(tasks);
  (void)co_await unio::when_any(one(), unio::co_sleep(100ms));
  (void)(x + y + static_cast<int>(none.size()));
}

// A program's own functions of these names, with arguments that are found in namespace unio.
void run(std::function<unio::task<int>()> f) { unio::run(f()); }
void run(unio::const_buffer) {}
void run(std::vector<unio::task<int>> const&) {}
template <class F> void sync_wait(F const& f) { unio::sync_wait(f()); }
template <class Executor, class F> void run_on(Executor const& executor, F f) {
  unio::async_run(executor, f());
}
void own(unio::io_multiplexer& multiplexer, std::vector<unio::task<int>>& tasks,
         unio::mutable_buffer buffer) {
  run(one);
  run(buffer);
  run(tasks);
  sync_wait(one);
  run_on(multiplexer.executor(), one);
}

int main() {
  unio::task<int> t = one();
  return unio::run(std::move(t));
}
