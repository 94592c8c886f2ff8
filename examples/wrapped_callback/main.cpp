// Shows     how a library that calls back, on a thread of its own, becomes something that a coroutine awaits,
//           with deadlines and stops.
// Run       build/release/examples/example_wrapped_callback
// Read next <unio/sync.hpp>, <unio/when.hpp>, docs/howto/wrapping-callbacks.md

#include <unio/unio.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

namespace {

// ---- the library: it calls `done(context, value)` once, some time later, on another thread ----------------

extern "C" {
using query_done = void (*)(void* context, int value);
}

std::atomic<int> queries_under_way = 0;

std::thread query(int number, std::chrono::milliseconds takes, query_done done, void* context) {
  ++queries_under_way;
  return std::thread([=] {
    std::this_thread::sleep_for(takes);
    done(context, number * number);
    --queries_under_way;
  });
}

// ---- the same as a task -----------------------------------------------------------------------------------

// Shared by the coroutine, which may be stopped first, and the callback, which comes in any case.
struct answer {
  unio::event has_come;
  int value = 0;
};

void answered(void* context, int value) {
  std::unique_ptr<std::shared_ptr<answer>> const mine(static_cast<std::shared_ptr<answer>*>(context));
  (*mine)->value = value;
  (*mine)->has_come.set(); // from any thread: the coroutine is posted to its executor
}

unio::task<unio::result<int>> co_query(int number, std::chrono::milliseconds takes) {
  auto const shared = std::make_shared<answer>();
  query(number, takes, &answered, new std::shared_ptr<answer>(shared)).detach();
  auto const waited = co_await shared->has_come.co_wait();
  if (!waited) co_return waited.error(); // condition::canceled: the callback will find that it is alone
  co_return shared->value;
}

unio::task<bool> try_it() {
  unio::result<int> const seven = co_await co_query(7, 1ms);
  std::printf("seven: %d\n", seven.value());
  unio::result<int> const late = co_await unio::timeout(5ms, co_query(8, 500ms));
  std::printf("eight: %s\n", late.error().message().c_str());
  while (queries_under_way != 0) (void)co_await unio::co_sleep(10ms); // its callback comes, and finds nothing
  co_return seven.value() == 49 && late.error() == unio::condition::timed_out;
}

} // namespace

int main() { return unio::run(try_it()) ? 0 : 1; }
