// Shows     D2052R0 §4.3.1 and §4.3.2: the parts of a loop as functions of their own, each bounded in number
//           or time: complete_io, timeout_io, invoke_posted_items; and run, whose bound is how long it may
//           sleep.
// Run       build/release/examples/example_d2052_4_3_1_bounded_functions
// Read next ../d2052_4_3_2_post/main.cpp, ../deadlines/main.cpp

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace std::chrono_literals;

namespace {

struct receiver {
  char const* what = "";
  void set_value(unio::io_result<unio::mutable_buffers>&& r) {
    std::printf("    %s: %s\n", what, r ? "read" : r.error().message().c_str());
  }
  void set_done() {}
};
using connection = unio::io_operation_connection<unio::async_read, receiver>;

int show(char const* call, unio::result<int> n) {
  std::printf("%-32s %2d\n", call, n.value());
  return *n;
}

void expect(bool claim) {
  if (!claim) std::abort();
}

} // namespace

int main() {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  auto [late_reader, late_writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 16> room;

  expect(show("complete_io, nothing pending", m.complete_io()) == 0);

  connection a = unio::connect(unio::async_read(reader, room), receiver{"a"});
  a.start();
  expect(show("complete_io, none ready", m.complete_io()) < 0);
  expect(show("try_run_for 1 ms, none ready", m.try_run_for(1ms)) < 0);

  writer.write(std::string_view("x")).value();
  // At most one item, and no new one after 1 ms: on a busy machine that may pass before the first. A time
  // point works too.
  while (!a.finished()) show("complete_io_within 1 ms", m.complete_io_within(1ms, 1));

  // A function of their own looks at deadlines; programs without deadlines never call it.
  connection b = unio::connect(unio::async_read(late_reader, room, 1ms), receiver{"b"});
  b.start();
  expect(m.complete_io().value() < 0);
  auto const soon = std::chrono::steady_clock::now() + 2ms;
  while (std::chrono::steady_clock::now() < soon) {
  }
  // The kernel is asked to return the operation; complete_io delivers the outcome.
  while (!b.finished()) {
    show("timeout_io_within 1 ms", m.timeout_io_within(1ms));
    show("complete_io_within 1 ms", m.complete_io_within(1ms));
  }

  m.post([] { std::printf("    posted\n"); }).value();
  m.post([] { std::printf("    posted\n"); }).value();
  expect(show("invoke_posted_items, at most 1", m.invoke_posted_items(1)) == 1);
  while (show("invoke_posted_items_within 1 ms", m.invoke_posted_items_within(1ms)) != 1) {
  }

  expect(show("try_run, nothing left", m.try_run()) == 0);
  expect(show("try_run_until a moment", m.try_run_until(std::chrono::steady_clock::now() + 1ms)) == 0);
}
