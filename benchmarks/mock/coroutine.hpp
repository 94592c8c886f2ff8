// The operations as coroutines, for any task: every level is one, or all but the lowest.
//
// The leaf is what the library's own co_X is: an awaitable whose state is queued as it is, here preallocated
// in the socket as §5.1 of the paper has it.
#pragma once

#include "mock/context.hpp"
#include "mock/subjects.hpp"

#include <coroutine>
#include <cstdint>

namespace mock {

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
    template <class... Environment>
    void await_suspend(std::coroutine_handle<> h, Environment const&...) const noexcept {
      with.waiting = h;
      with.context.post(&with);
    }
    static void await_resume() noexcept {}
  };

  state state_;
};

template <class Task> struct each_level_a_task {
  static Task async_read_some(socket& s) { co_await s.async_io(); }
};

struct plain_leaves {
  static auto async_read_some(socket& s) { return s.async_io(); }
};

template <class Task, class Leaf> struct operations {
  static Task async_read(socket& s) {
    for (int i = 0; i < pieces_per_read; ++i) co_await Leaf::async_read_some(s);
  }

  static Task async_request(socket& s) {
    for (int i = 0; i < reads_per_request; ++i) co_await async_read(s);
  }

  // One loop per depth: nothing is chosen while it runs.
  static Task client(socket& s, depth d, std::uint64_t requests) {
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

} // namespace mock
