// Tasks on strands over the simulated multiplexer: one at a time, whatever is stopped, dispatched, posted or
// hops between them.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using strand_of_simulation = unio::strand<unio::multiplexer_executor>;

// What a strand protects: no two tasks may be inside at once. A task leaves it wherever it awaits.
class guarded {
 public:
  void enter() noexcept { overlapped_ = overlapped_ || std::exchange(inside_, true); }
  void leave() noexcept { inside_ = false; }
  [[nodiscard]] bool overlapped() const noexcept { return overlapped_; }

 private:
  bool inside_ = false;
  bool overlapped_ = false;
};

struct scene {
  std::optional<strand_of_simulation> strands[2];
  guarded protects[2];
  int steps = 0;
  int ended = 0;
};

void step(scene& s, int where) {
  EXPECT_TRUE(s.strands[where]->running_in_this_thread());
  s.protects[where].enter();
  ++s.steps;
  s.protects[where].leave();
}

task<> visit(scene& s, int where) {
  step(s, where);
  (void)co_await unio::co_no_op();
  step(s, where);
}

task<> walk(scene& s, int where, dice d) {
  for (int i = 0; i != 6; ++i) {
    step(s, where);
    switch (d.below(3)) {
      case 0:
        (void)co_await unio::co_no_op();
        break;
      case 1:
        co_await unio::run_on(*s.strands[1 - where], visit(s, 1 - where));
        break;
      case 2:
        (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(50)));
        break;
    }
    step(s, where);
  }
  ++s.ended;
}

TEST(simulated_strand, lets_one_task_in_at_a_time_whatever_is_stopped) {
  for_seeds(1000, [](simulation& sim) {
    dice d(sim.seed());
    scene s;
    for (auto& strand : s.strands) strand.emplace(sim.multiplexer().executor());
    auto const source = std::make_shared<unio::stop_source>(); // it may come after all has ended
    unio::stop_source& stop = *source;
    int const tasks = 2 + static_cast<int>(d.below(4));
    for (int i = 0; i != tasks; ++i) {
      int const where = static_cast<int>(d.below(2));
      unio::async_run(*s.strands[where], walk(s, where, dice(d.below(1 << 20))), {.stop = stop.get_token()});
    }
    if (d.below(2) == 0)
      sim.after(std::chrono::microseconds(d.below(100)), [source] { source->request_stop(); });
    EXPECT_TRUE(run_until(sim, [&] { return s.ended == tasks; }));
    EXPECT_FALSE(s.protects[0].overlapped() || s.protects[1].overlapped());
    EXPECT_GE(s.steps, tasks * 12);
  });
}

TEST(simulated_strand, would_be_seen_to_let_two_in) { // the canary
  guarded g;
  g.enter();
  g.enter();
  EXPECT_TRUE(g.overlapped());
}

} // namespace
