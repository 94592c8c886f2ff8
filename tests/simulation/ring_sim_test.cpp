// What only the ring's client (driver/uring/client.hpp) decides: when it may sleep, what wakes it, and what
// becomes of operations that its kernel does not know. Everything else of it is under every other simulation.

#include "support.hpp"

#include <unio/file_handle.hpp>

#include <chrono>
#include <deque>
#include <vector>

namespace {

using namespace test;
using namespace std::chrono_literals;
using unio::async_accept_many;
using unio::async_read;
using unio::condition;

// A kernel that knows few operations, and whose calls fail for want of memory.
simulation_options modest(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  o.readiness = o.interruptions = o.spurious_wakeups = o.late_cancels = true;
  return o;
}

simulation_options modest_and_of_one_entry(std::uint64_t seed) noexcept {
  simulation_options o = modest(seed);
  o.queue_entries = 1;
  return o;
}

// A read that would keep a multiplexer asleep for an hour.
struct long_read {
  explicit long_read(simulation& s) : pipe(s.pipe()) {}
  void cancel(simulation& s) {
    op.cancel();
    EXPECT_TRUE(run_until(s, [this] { return op.ended(); }));
  }
  unio::anonymous_pipe pipe;
  char byte = 0;
  started<async_read> op{async_read(pipe.reader, unio::mutable_buffer(&byte, 1), 1h)};
};

SEEDED_TEST(simulated_ring, is_woken_by_each_event_whatever_became_of_the_doorbell, 2000,
            modest_and_of_one_entry) {
  dice d(s.seed());
  unio::anonymous_pipe pipes[] = {s.pipe(), s.pipe(), s.pipe()};
  for (int round = 0; round != 10; ++round) {
    char bytes[3] = {};
    std::deque<started<async_read>> ops;
    for (int i = 0; i != 3; ++i) {
      ops.emplace_back(async_read(pipes[i].reader, unio::mutable_buffer(&bytes[i], 1)));
      s.after(std::chrono::nanoseconds(d.below(5000)),
              [&out = pipes[i].writer] { (void)out.write(unio::const_buffer("x", 1)); });
    }
    EXPECT_TRUE(run_until(s, [&] { return all_ended(ops); }));
    for (tally const& one : ops) EXPECT_EQ(one.bytes, 1u);
  }
}

SEEDED_TEST(simulated_ring, does_not_sleep_over_a_result_of_what_it_performs_itself, 1000, modest) {
  long_read other(s);
  auto listener = s.listener();
  std::vector<unio::socket_handle> clients;
  for (int i = 0; i != 4; ++i) clients.push_back(s.connect_to(listener));
  auto const begun = s.now();
  started op{async_accept_many(listener)};
  EXPECT_TRUE(run_until(s, [&] { return op.accepted.size() == clients.size(); }));
  EXPECT_LT(s.now() - begun, 1s);
  op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  other.cancel(s);
}

SEEDED_TEST(simulated_ring, does_not_sleep_over_the_moment_at_which_it_has_to_try_again, 1000, modest) {
  long_read other(s);
  auto file = s.file();
  watched op{unio::async_lock_range(file, 0, 1, unio::lock_kind::exclusive, {})};
  auto const begun = s.now();
  op.start();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  EXPECT_FALSE(op.error);
  EXPECT_LT(s.now() - begun, 10s);
  other.cancel(s);
}

SEEDED_TEST(simulated_ring, ends_a_cancelled_multishot_that_its_kernel_does_not_know, 2000, modest) {
  dice d(s.seed());
  auto listener = s.listener();
  started op{async_accept_many(listener)};
  for (std::uint64_t turns = d.below(8); turns != 0; --turns) (void)s.multiplexer().complete_io();
  op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  EXPECT_EQ(op.ends, 1);
  EXPECT_EQ(op.error, condition::canceled);
}

} // namespace
