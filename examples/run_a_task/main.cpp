// Shows     the smallest coroutine program: a task, run on this thread's multiplexer until it has ended.
// Run       build/release/examples/example_run_a_task
// Read next ../coroutine_first_4_executor/main.cpp, <unio/run.hpp>

#include <unio/unio.hpp>

#include <cstdio>

unio::task<> hello() {
  (co_await unio::co_no_op()).value(); // anything that can be awaited
  std::puts("hello from a coroutine");
}

int main() { unio::run(hello()); }
