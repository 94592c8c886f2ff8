// Shows     the four kinds of deadline, which every operation that waits takes: none, a span, a moment, zero;
//           and a timer.
// Run       build/release/examples/example_deadlines
// Read next ../echo_server/main.cpp, <unio/deadline.hpp>

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace std::chrono_literals;

namespace {

void expect(unio::io_result<unio::mutable_buffers> const& got, unio::condition what, char const* how) {
  std::printf("%-22s %s\n", how, got ? "read" : got.error().message().c_str());
  if (got || got.error() != what) std::exit(1);
}

struct receiver {
  void set_value(unio::io_result<unio::mutable_buffers>&& got) {
    expect(got, unio::condition::timed_out, "multiplexed");
  }
  void set_done() {}
};

} // namespace

int main() {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 16> room;

  expect(reader.try_read(room), unio::condition::would_block, "try_read");
  expect(reader.read(room, 1ms), unio::condition::timed_out, "read, 1 ms");
  expect(reader.try_read_for(room, 1ms), unio::condition::timed_out, "try_read_for, 1 ms");
  auto const in_a_moment = std::chrono::system_clock::now() + 2ms;
  expect(reader.try_read_until(room, in_a_moment), unio::condition::timed_out, "try_read_until");

  auto operation = unio::connect(unio::try_async_read_for(reader, room, 1ms), receiver{});
  operation.start();
  while (!operation.finished()) reader.multiplexer()->run().value(); // run() looks at deadlines, too

  unio::timer_handle timer(2ms);
  timer.wait().value();
  std::puts("a timer, 2 ms");

  writer.write(std::string_view("x")).value();
  // Data that is there is read, whatever the deadline.
  return reader.read(room, unio::deadline::zero()) ? 0 : 1;
}
