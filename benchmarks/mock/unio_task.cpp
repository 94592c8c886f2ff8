// unio's coroutines: every level is a unio::task, in a client that is one as well.
//
// Two subjects: each level above the leaf a task; and async_read_some a plain awaitable too, as read_some is
// in the library (handle::co_read), so that tasks begin at the third level.

#include "mock/coroutine.hpp"

#include <unio/task.hpp>

namespace mock {
namespace {

using unio::task;

// The mock loop stands for the multiplexer, so the client is started as a multiplexer would start it.
struct ended : unio::detail::end_listener {
  ended()
      : end_listener(
            [](end_listener&) noexcept -> std::coroutine_handle<> { return std::noop_coroutine(); }) {}
};

template <class Leaf> benchmarks::sample run(depth d, std::uint64_t requests) {
  io_context context;
  socket s(context);
  const unio::inline_executor executor;
  unio::environment environment;
  environment.executor = executor;
  ended listener;
  const task<> client = operations<task<>, Leaf>::client(s, d, requests);
  client.child().promise().set_environment(environment);
  client.child().promise().set_continuation(listener);
  std::uint64_t completed = 0;
  const benchmarks::sample result = benchmarks::measure(requests, [&] {
    client.child().resume();
    completed = context.run();
  });
  check_completed(d, requests, completed);
  return result;
}

} // namespace

subject unio_task() { return {.name = "unio task", .run = run<each_level_a_task<task<>>>}; }
subject unio_task_plain() { return {.name = "unio task, plain leaves", .run = run<plain_leaves>}; }

} // namespace mock
