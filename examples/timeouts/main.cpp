// Shows     bounds on compositions of many operations: timeout, when_any, when_all and a task_group, none of
//           which leaves anything running that it has started.
// Run       build/release/examples/example_timeouts
// Read next ../deadlines/main.cpp, <unio/when.hpp>, <unio/task_group.hpp>

#include <unio/stream.hpp>
#include <unio/task_group.hpp>
#include <unio/unio.hpp>
#include <unio/when.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>

using namespace std::chrono_literals;

namespace {

using unio::io_result;
using unio::task;

// Reads two bytes in two steps: no deadline of a single read bounds it.
task<io_result<void>> read_two(unio::pipe_handle& in) {
  std::array<char, 1> room{};
  for (int i = 0; i != 2; ++i) {
    auto const got = co_await in.co_read(unio::mutable_buffer(room));
    if (!got.has_value()) co_return got.error();
  }
  co_return io_result<void>();
}

task<> answer(unio::pipe_handle& out) {
  (co_await unio::co_sleep(1ms)).value();
  (co_await unio::co_write(out, unio::const_buffer("ab", 2))).value();
}

task<int> count(int from) {
  (co_await unio::co_sleep(1ms)).value();
  co_return from + 1;
}

// Ends as if nothing had happened when it is asked to stop.
task<> tick(int& ticks) {
  for (;;) {
    auto const slept = co_await unio::co_sleep(1h);
    if (!slept.has_value()) co_return;
    ++ticks;
  }
}

task<> show(bool& good) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();

  // There is no writer: the reader is asked to stop, which is reported as a timeout.
  io_result<void> const late = co_await unio::timeout(2ms, read_two(reader));
  std::printf("timeout       %s\n", late.error().message().c_str());
  good = good && late.error() == unio::condition::timed_out;

  // So is a task<> that ends without an error then: it has nothing to return.
  int ticks = 0;
  unio::result<void> const quiet = co_await unio::timeout(2ms, tick(ticks));
  std::printf("of a task<>   %s\n", quiet.error().message().c_str());
  good = good && quiet.error() == unio::condition::timed_out;

  // Both at once; void is left out of the tuple.
  auto [in_time] = co_await unio::when_all(unio::timeout(1h, read_two(reader)), answer(writer));
  std::printf("when_all      %s\n", in_time.has_value() ? "read" : in_time.error().message().c_str());
  good = good && in_time.has_value();

  // The first that succeeds; the other is asked to stop, and waited for.
  auto const first = co_await unio::when_any(read_two(reader), unio::co_sleep(1ms));
  std::printf("when_any      number %zu was first\n", first.index);
  good = good && first.index == 1;

  // Any number of tasks, in a scope that they cannot leave.
  int sum = 0;
  unio::task_group group(co_await unio::this_coro::environment);
  for (int i = 0; i != 4; ++i)
    group.start(count(i), [&sum](unio::task_outcome<int> const& n) { sum += n.value(); });
  co_await group.co_join();
  std::printf("task_group    %d\n", sum);
  good = good && sum == 10;
}

} // namespace

int main() {
  bool good = true;
  unio::run(show(good));
  return good ? 0 : 1;
}
