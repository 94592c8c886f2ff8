// Waiting for whichever of several handles is ready, in every order that the simulation knows: it ends once,
// and says of each handle what was so.

#include "support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr auto& without_lies = with<&simulation_options::spurious_wakeups, false>; // of poll(2)

// Written to, cancelled, out of time, closed or destroyed at any moment.
TEST(simulated_poll_any, ends_once_and_finds_what_is_ready) {
  int found = 0, ended_otherwise = 0;
  for_seeds<without_lies>(4000, [&](simulation& s) {
    dice d(s.seed());
    std::size_t const n = 1 + d.below(4);
    std::vector<unio::anonymous_pipe> pipes;
    std::vector<bool> is_written(n);
    std::vector<poll_entry> each;
    for (std::size_t i = 0; i != n; ++i) {
      pipes.push_back(s.pipe());
      bool const several = d.below(3) == 0;
      each.emplace_back(pipes[i].reader, several ? readiness_set::readable | readiness_set::exceptional
                                                 : readiness_set::readable);
    }
    auto const write = [&] {
      std::size_t const i = d.below(n);
      char const byte = 'x';
      is_written[i] = pipes[i].writer.write(unio::const_buffer(&byte, 1)).has_value() || is_written[i];
    };
    unio::deadline const within =
        d.below(3) == 0 ? unio::deadline(std::chrono::nanoseconds(1 + d.below(5000))) : unio::deadline();
    tally told;
    auto op = std::make_optional(unio::connect(async_poll_any(each, within), tell{&told}));
    if (d.below(4) == 0) write();
    op->start();
    for (std::uint64_t steps = d.below(4); steps != 0; --steps) {
      for (std::uint64_t turns = d.below(4); turns != 0; --turns) (void)s.multiplexer().try_run();
      if (d.below(3) == 0) write();
      if (d.below(8) == 0) s.advance(std::chrono::nanoseconds(d.below(4000)));
      if (d.below(3) == 0) (void)op->poll();
    }
    bool closed = false;
    switch (d.below(4)) {
      case 0:
        op->cancel();
        break;
      case 1:
        closed = true;
        (void)pipes[d.below(n)].reader.close();
        break;
      case 2:
        write();
        break;
      default:
        op.reset();
        break;
    }
    if (!op.has_value()) return;
    EXPECT_TRUE(run_until(s, [&] { return op->finished(); }));
    expect_ended_once(told);
    std::size_t ready = 0;
    for (std::size_t i = 0; i != n; ++i) {
      if (!each[i].is_ready()) continue;
      ++ready;
      EXPECT_TRUE(is_written[i] || closed) << "entry " << i << " has found what was not there";
    }
    if (told.error) {
      EXPECT_EQ(ready, 0u);
      EXPECT_TRUE(told.error == condition::canceled || told.error == condition::timed_out)
          << told.error.message();
      ++ended_otherwise;
    } else {
      EXPECT_EQ(op->result().value(), ready);
      EXPECT_NE(ready, 0u);
      ++found;
    }
  });
  EXPECT_GT(found, 500);
  EXPECT_GT(ended_otherwise, 300);
}

// Blocking calls, whose thread has a multiplexer with something to run or not.
TEST(simulated_poll_any, called_waits_in_virtual_time) {
  using namespace std::chrono_literals;
  for_seeds<without_lies>(300, [](simulation& s) {
    auto a = s.pipe(), b = s.pipe();
    unio::timer_handle timer(unio::deadline(3ms), &s.multiplexer());
    auto soon = unio::connect(unio::async_wait(timer), calls{[&] {
                                char const byte = 'x';
                                (void)b.writer.write(unio::const_buffer(&byte, 1));
                              }});
    poll_entry each[] = {{a.reader, readiness_set::readable}, {b.reader, readiness_set::readable}};
    EXPECT_EQ(unio::poll_any(each, 1ms).error(), condition::timed_out);
    soon.start();
    EXPECT_EQ(unio::poll_any(each, 1s).value(), 1u);
    EXPECT_TRUE(each[1].is_ready());
    EXPECT_TRUE(soon.finished());
  });
}

} // namespace
