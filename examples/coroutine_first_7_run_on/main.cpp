// Shows     *Coroutine-first asynchronous I/O* §7: run_on runs a task elsewhere; its caller resumes where it
//           was.
// Run       build/release/examples/example_coroutine_first_7_run_on
// Read next ../coroutine_first_8_async_run/main.cpp

#include <unio/thread_pool.hpp>
#include <unio/unio.hpp>

#include <cstdio>
#include <stdexcept>
#include <thread>

namespace {

unio::task<std::thread::id> work_hard(int) { co_return std::this_thread::get_id(); }

unio::task<> fail() {
  throw std::runtime_error("it failed over there");
  co_return;
}

unio::task<bool> control(unio::thread_pool& pool) {
  auto const here = std::this_thread::get_id();
  auto const there = co_await unio::run_on(pool.executor(), work_hard(42));
  bool good = there != here && std::this_thread::get_id() == here;
  try {
    co_await unio::run_on(pool.executor(), fail());
    good = false;
  } catch (std::runtime_error const& e) {
    std::printf("caught here: %s\n", e.what());
    good = good && std::this_thread::get_id() == here;
  }
  co_return good;
}

} // namespace

int main() {
  unio::thread_pool pool(2);
  bool const good = unio::run(control(pool));
  std::printf("there and back: %s\n", good ? "yes" : "no");
  return good ? 0 : 1;
}
