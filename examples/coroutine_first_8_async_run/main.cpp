// Shows     *Coroutine-first asynchronous I/O* §8: async_run starts a task on an executor, which the chain
//           then owns, and returns. A handler gets the outcome; several tasks can be started at once.
// Run       build/release/examples/example_coroutine_first_8_async_run
// Read next ../coroutine_first_9_frame_allocator/main.cpp

#include <unio/unio.hpp>

#include <cstdio>
#include <stdexcept>

namespace {

unio::task<int> twice(int n) {
  (co_await unio::co_no_op()).value();
  if (n < 0) throw std::invalid_argument("negative");
  co_return 2 * n;
}

unio::task<> say(char const* what) {
  std::puts(what);
  co_return;
}

void told(unio::task_outcome<int> const& outcome) {
  if (outcome.has_value()) {
    std::printf("told: %d\n", *outcome);
    return;
  }
  try {
    std::rethrow_exception(outcome.error());
  } catch (std::exception const& e) {
    std::printf("told: %s\n", e.what());
  }
}

} // namespace

int main() {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  unio::async_run(m.executor(), twice(21), told);
  unio::async_run(m.executor(), twice(-1), told);
  unio::async_run(m, say("one of two"), say("two of two"));
  while (m.run().value() != 0) {
  }
}
