// Blocking calls in the simulation: in virtual time, and beside the thread's own multiplexer.

#include "simulation/support.hpp"
#include "support/ends.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

SEEDED_TEST(simulated_blocking, read_is_ended_by_a_timer_of_the_threads_own_multiplexer_in_virtual_time,
            200) {
  unio::anonymous_pipe p = s.pipe();
  p.reader.set_multiplexer(nullptr);
  unio::timer_handle t(1h);
  auto write =
      unio::connect(unio::async_wait(t), calls{[&] {
                      while (p.writer.try_write(unio::const_buffer("x", 1)).error() == condition::would_block)
                        continue;
                    }});
  auto const begin = unio::now();
  write.start();
  char memory[4];
  EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 2h).value().bytes(), 1U);
  EXPECT_GE(unio::now() - begin, 1h);
  unio::timer_handle later(3h);
  auto never = unio::connect(unio::async_wait(later), calls{});
  never.start();
  EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 1h).error(), condition::timed_out);
  EXPECT_FALSE(never.finished());
  EXPECT_TRUE(test::run_until(s, [&] { return write.finished() && never.finished(); }));
  EXPECT_TRUE(p.reader.close());
  EXPECT_TRUE(p.writer.close());
}

} // namespace
