// foreign_handle.hpp in the simulation: there its world says what is ready, in virtual time.

#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/foreign_handle.hpp>

namespace {

using namespace test;

// A library that is told by us when its descriptor is ready.
TEST(simulated_foreign, is_ready_when_the_world_says_so) {
  int in_vain = 0;
  for_seeds(200, [&](simulation& s) {
    auto ends = unio::pipe_handle::anonymous().value();
    auto h = foreign_handle::watch(ends.reader.native_handle()).value();
    auto const wait = [&]() -> task<> {
      char c = 0;
      for (char expected = 'a'; expected != 'f';) {
        auto const is = co_await h.co_wait(readiness_set::readable, 2ms);
        if (is.error() == condition::timed_out) {
          ++in_vain;
          continue;
        }
        EXPECT_EQ(is.value(), readiness_set::readable);
        // What the world says may be wrong, as select(2) warns.
        if (!ends.reader.try_read(unio::mutable_buffer(&c, 1))) continue;
        EXPECT_EQ(c, expected++);
      }
    };
    auto const write = [&]() -> task<> {
      unio::timer_handle t;
      for (char c = 'a'; c != 'f'; ++c) {
        t.expires_at(unio::deadline(3ms));
        (void)co_await t.co_wait();
        EXPECT_TRUE(co_await ends.writer.co_write(unio::const_buffer(&c, 1)));
      }
    };
    unio::run(s.multiplexer(), unio::when_all(wait(), write()));
    h = {};
    ends = {};
  });
  EXPECT_GT(in_vain, 100);
}

SEEDED_TEST(simulated_foreign, is_cancelled_by_a_stop_and_by_closing, 50) {
  auto ends = unio::pipe_handle::anonymous().value();
  auto h = foreign_handle::watch(ends.reader.native_handle()).value();
  std::error_code ended;
  auto const wait = [&]() -> task<> { ended = (co_await h.co_wait(readiness_set::readable)).error(); };
  auto const close = [&]() -> task<> {
    unio::timer_handle t(unio::deadline(3ms));
    (void)co_await t.co_wait();
    EXPECT_TRUE(h.close());
  };
  unio::run(s.multiplexer(), unio::when_all(wait(), close()));
  EXPECT_EQ(ended, condition::canceled);
  EXPECT_EQ(h.watched(), -1);
}

} // namespace
