// Programs of coroutines that a seed draws: tasks that wait for each other, for all or the first of several,
// in groups, on strands, for locks and channels, with time limits; that throw, are stopped, or are destroyed
// at any moment. Whatever they do, nothing runs that is destroyed, and all that was taken is given back.

#include "support.hpp"
#include "support/any_coroutines.hpp"

#include <unio/async_task.hpp>

namespace {

using namespace test;
using namespace test::any_coroutines;

task<result<void>> is_the_program(shared_things& t) {
  (void)co_await timeout(50us + 10 * t.span(), does_calmly(t, 4, false));
  co_return {};
}

SEEDED_TEST(simulated_programs, of_coroutines_give_everything_back_however_they_end, 1000) {
  auto const where = s.multiplexer().executor();
  shared_things t(where, s.seed(), 400);
  {
    auto program = unio::connect(unio::async_task(is_the_program(t)), ignore{});
    program.start(&s.multiplexer());
    bool const destroys = t.one_in(3), cancels = t.one_in(3);
    std::uint64_t turns = t.below(60);
    EXPECT_TRUE(run_until(s, [&] {
      if (program.finished()) return true;
      if (turns-- != 0) return false;
      if (cancels) program.cancel();
      return destroys;
    }));
  }
  EXPECT_TRUE(t.all_is_back());
}

} // namespace
