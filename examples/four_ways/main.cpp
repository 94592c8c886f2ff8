// Shows     one read, run in the four ways that a program may want to run it. The operation is the same in
//           all of them.
// Run       build/release/examples/example_four_ways
// Read next ../d2052_4_3_connect_start/main.cpp, ../deadlines/main.cpp, ../echo_server/main.cpp

#include <unio/unio.hpp>

#include <array>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <string_view>

namespace {

// A coroutine that nothing waits for: it begins at once and is destroyed at its end.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

int shown = 0;

void show(char const* way, unio::io_result<unio::mutable_buffers> const& got) {
  std::printf("%-12s %zu bytes\n", way, got.bytes_transferred());
  ++shown;
}

std::array<char, 64> room;

void blocking(unio::pipe_handle& pipe) { show("blocking", pipe.read(room)); }

struct receiver {
  char const* way;
  void set_value(unio::io_result<unio::mutable_buffers>&& got) { show(way, got); }
  void set_done() {} // from here on the operation and its memory may be used again
};

void polled(unio::pipe_handle& pipe) {
  auto operation = unio::connect(unio::async_read(pipe, room), receiver{"polled"});
  operation.start();
  while (operation.poll() != unio::io_status::completed) {
  }
}

detached awaited(unio::pipe_handle& pipe) { show("awaited", co_await pipe.co_read(room)); }

void multiplexed(unio::pipe_handle& pipe) {
  auto operation = unio::connect(unio::async_read(pipe, room), receiver{"multiplexed"});
  operation.start();
  while (!operation.finished()) pipe.multiplexer()->run().value(); // sleeps; other operations move too
}

} // namespace

int main() {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  auto const say = [&](std::string_view text) { writer.write(text).value(); };
  say("one");
  blocking(reader);
  say("two");
  polled(reader);
  awaited(reader); // finds nothing and suspends
  say("three");
  while (shown < 3) reader.multiplexer()->run().value(); // resumes it
  say("four");
  multiplexed(reader);
}
