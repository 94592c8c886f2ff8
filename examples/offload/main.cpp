// Shows     long computations that delay nothing else: they run on a pool of threads, and the coroutine goes
//           on where it was; and a loop that stays on its thread, and lets the others run.
// Run       build/release/examples/example_offload
// Read next ../thread_pool/main.cpp, <unio/run.hpp>, docs/howto/cpu-work.md

#include <unio/unio.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

using namespace std::chrono_literals;

namespace {

std::uint64_t checksum(std::uint64_t seed, int rounds) {
  for (int i = 0; i != rounds; ++i) seed = (seed ^ (seed >> 29)) * 0x9e3779b97f4a7c15 + 1;
  return seed;
}

unio::task<std::uint64_t> compute(std::uint64_t seed) { co_return checksum(seed, 20'000'000); }

unio::task<std::uint64_t> compute_there(unio::thread_pool& pool, std::uint64_t seed) {
  unio::task<std::uint64_t> work = compute(seed);
  co_return co_await unio::run_on(pool.executor(), std::move(work));
} // and here it is on its own thread again

unio::task<std::uint64_t> compute_here(std::uint64_t seed) {
  for (int i = 0; i != 200; ++i) {
    seed = checksum(seed, 100'000); // some hundred microseconds
    co_await unio::co_yield_now();
  }
  co_return seed;
}

unio::task<int> tick(bool const& ended) {
  int ticks = 0;
  while (!ended) {
    (void)co_await unio::co_sleep(1ms);
    ++ticks;
  }
  co_return ticks;
}

unio::task<int> ticks_beside(unio::task<std::uint64_t> work, std::uint64_t& value) {
  bool ended = false;
  auto const noting_the_end = [&]() -> unio::task<> {
    value = co_await std::move(work);
    ended = true;
  };
  auto [ticks] = co_await unio::when_all(tick(ended), noting_the_end());
  co_return ticks;
}

} // namespace

int main() {
  unio::thread_pool pool(2);
  auto const here = std::this_thread::get_id();
  std::uint64_t a = 0, b = 0;
  int const beside_the_pool = unio::run(ticks_beside(compute_there(pool, 1), a));
  int const beside_yields = unio::run(ticks_beside(compute_here(1), b));
  std::printf("a timer fired %d times beside the pool, %d times between yields\n", beside_the_pool,
              beside_yields);
  bool const right = a == checksum(1, 20'000'000) && a == b && here == std::this_thread::get_id();
  return right && beside_the_pool > 0 && beside_yields > 0 ? 0 : 1;
}
