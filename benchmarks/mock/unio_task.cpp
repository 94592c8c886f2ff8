// unio's coroutines: every level is a unio::task, in a client that is one as well.
//
// The leaf is what the library's own co_X is: an awaitable whose state is queued as it is, here preallocated
// in the socket as §5.1 of the paper has it. Two subjects: each level above it a task; and async_read_some a
// plain awaitable too, as read_some is in the library (handle::co_read), so that tasks begin at the third
// level.

#include "mock/context.hpp"
#include "mock/subjects.hpp"

#include <unio/task.hpp>

#include <coroutine>

namespace mock {
namespace {

using unio::task;

class socket {
 public:
  explicit socket(io_context& context) : state_(context) {}

  auto async_io() { return awaitable{state_}; }

 private:
  struct state final : work {
    explicit state(io_context& c) : context(c) {}
    void operator()() override { waiting.resume(); }
    io_context& context;
    std::coroutine_handle<> waiting;
  };

  struct awaitable {
    state& with;
    static bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h, unio::environment const&) const noexcept {
      with.waiting = h;
      with.context.post(&with);
    }
    static void await_resume() noexcept {}
  };

  state state_;
};

struct each_level_a_task {
  static task<> async_read_some(socket& s) { co_await s.async_io(); }
};

struct plain_leaves {
  static auto async_read_some(socket& s) { return s.async_io(); }
};

template <class Leaf> struct operations {
  static task<> async_read(socket& s) {
    for (int i = 0; i < pieces_per_read; ++i) co_await Leaf::async_read_some(s);
  }

  static task<> async_request(socket& s) {
    for (int i = 0; i < reads_per_request; ++i) co_await async_read(s);
  }

  // One loop per depth: nothing is chosen while it runs.
  static task<> client(socket& s, depth d, std::uint64_t requests) {
    switch (d) {
      case depth::async_io:
        for (; requests != 0; --requests) co_await s.async_io();
        break;
      case depth::async_read_some:
        for (; requests != 0; --requests) co_await Leaf::async_read_some(s);
        break;
      case depth::async_read:
        for (; requests != 0; --requests) co_await async_read(s);
        break;
      case depth::async_request:
        for (; requests != 0; --requests) co_await async_request(s);
        break;
    }
  }
};

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
  const task<> client = operations<Leaf>::client(s, d, requests);
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

subject unio_task() { return {.name = "unio task", .run = run<each_level_a_task>}; }
subject unio_task_plain() { return {.name = "unio task, plain leaves", .run = run<plain_leaves>}; }

} // namespace mock
