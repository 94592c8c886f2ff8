// Shows     D2052R0 §4.3.2: posting a function to the thread that runs a multiplexer, from any thread; and
//           waking it.
// Run       build/release/examples/example_d2052_4_3_2_post
// Read next ../own_multiplexer_per_thread/main.cpp

#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <thread>

namespace {

struct receiver {
  void set_value(unio::io_result<unio::mutable_buffers>&&) {}
  void set_done() {}
};

// Posting a work allocates nothing: the node is the object.
struct greeting : unio::work {
  int* told;
  explicit greeting(int& t) : work(&say), told(&t) {}
  static void say(work& w, bool run) noexcept {
    if (!run) return; // the multiplexer is ending
    std::puts("told by a work");
    ++*static_cast<greeting&>(w).told;
  }
};

} // namespace

int main() {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();

  // An operation that never completes, so that run() sleeps.
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 16> room;
  auto pending = unio::connect(unio::async_read(reader, room), receiver{});
  pending.start();

  int told = 0; // only this thread touches it
  greeting hello(told);
  std::jthread const other([&] {
    m.post([&told] {
       std::puts("told by a function");
       ++told;
     }).value();
    m.post(hello);
  });

  while (told < 2) m.run().value();
  pending.cancel(); // ends with condition::canceled
  while (!pending.finished()) m.run().value();
}
