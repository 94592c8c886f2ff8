// futex.hpp on the simulation, where a word is looked at as the simulated time passes: nothing but a change
// ends a wait, and the same number gives the same run.

#include "simulation/support.hpp"
#include "support/coroutine.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using word = std::atomic<std::uint32_t>;

task<> adds(word& w, std::uint32_t n) {
  for (std::uint32_t i = 0; i != n; ++i) {
    unio::timer_handle pause(unio::deadline(3ms));
    (void)co_await pause.co_wait();
    w.fetch_add(1);
    futex(w).wake_all();
  }
}

task<std::uint32_t> waits_for(word& w, std::uint32_t last) {
  futex f(w);
  std::uint32_t seen = w.load();
  while (seen != last) {
    auto const r = co_await f.co_wait(seen, 10s);
    if (!r.has_value()) co_return 0;
    seen = *r;
  }
  co_return seen;
}

SEEDED_TEST(futex_sim, sees_every_last_change, 1000) {
  word w{0};
  unio::async_run(s.multiplexer(), adds(w, 5));
  EXPECT_EQ(unio::run(s.multiplexer(), waits_for(w, 5)), 5U);
}

SEEDED_TEST(futex_sim, waits_in_vain_until_its_deadline, 50) {
  word w{0};
  auto const in_vain = [&]() -> task<std::error_code> {
    futex f(w);
    auto const r = co_await f.co_wait(0, 10s);
    co_return r.error();
  };
  EXPECT_EQ(unio::run(s.multiplexer(), in_vain()), condition::timed_out);
}

} // namespace
