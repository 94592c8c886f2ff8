// What only the ring's client (driver/uring/client.hpp) decides: when it may sleep, who wakes it, and what
// becomes of operations that its kernel does not know. Everything else of it is under every other simulation.

#include "support.hpp"

#include <unio/file_handle.hpp>

#include <chrono>
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

struct accepting_receiver : counting_receiver {
  std::vector<unio::socket_handle>* accepted = nullptr;
  void set_value(unio::io_result<unio::socket_handle> r) {
    if (r.has_value()) accepted->push_back(std::move(*r));
    counting_receiver::set_value(std::move(r));
  }
};

// A read that would keep a multiplexer asleep for an hour.
struct long_read {
  explicit long_read(simulation& s) : pipe(s.pipe()) {
    op = watch(async_read(pipe.reader, unio::mutable_buffer(&byte, 1), 1h), t);
    op.start();
  }
  void cancel(simulation& s) {
    op.cancel();
    EXPECT_TRUE(run_until(s, [this] { return t.finished(); }));
  }
  unio::anonymous_pipe pipe;
  char byte = 0;
  told t;
  counting<async_read> op;
};

TEST(simulated_ring, is_woken_by_each_event_whatever_became_of_the_doorbell) {
  for_seeds(
      2000,
      [](simulation& s) {
        dice d(s.seed());
        unio::anonymous_pipe pipes[] = {s.pipe(), s.pipe(), s.pipe()};
        for (int round = 0; round != 10; ++round) {
          char bytes[3] = {};
          told t[3];
          counting<async_read> ops[3];
          for (int i = 0; i != 3; ++i) {
            ops[i] = watch(async_read(pipes[i].reader, unio::mutable_buffer(&bytes[i], 1)), t[i]);
            ops[i].start();
            s.after(std::chrono::nanoseconds(d.below(5000)),
                    [&out = pipes[i].writer] { (void)out.write(unio::const_buffer("x", 1)); });
          }
          EXPECT_TRUE(run_until(s, [&] { return t[0].finished() && t[1].finished() && t[2].finished(); }));
          for (told const& one : t) EXPECT_EQ(one.bytes, 1u);
        }
      },
      &modest_and_of_one_entry);
}

TEST(simulated_ring, does_not_sleep_over_a_result_of_what_it_performs_itself) {
  for_seeds(
      1000,
      [](simulation& s) {
        long_read other(s);
        auto listener = s.listener();
        std::vector<unio::socket_handle> clients, accepted;
        for (int i = 0; i != 4; ++i) clients.push_back(s.connect_to(listener));
        told t;
        auto op = connect(async_accept_many(listener), accepting_receiver{{&t}, &accepted});
        auto const begun = s.now();
        op.start();
        EXPECT_TRUE(run_until(s, [&] { return accepted.size() == clients.size(); }));
        EXPECT_LT(s.now() - begun, 1s);
        op.cancel();
        EXPECT_TRUE(run_until(s, [&] { return t.finished(); }));
        other.cancel(s);
      },
      &modest);
}

TEST(simulated_ring, does_not_sleep_over_the_moment_at_which_it_has_to_try_again) {
  for_seeds(
      1000,
      [](simulation& s) {
        long_read other(s);
        auto file = s.file();
        told t;
        auto op = watch(unio::async_lock_range(file, 0, 1, unio::lock_kind::exclusive, {}), t);
        auto const begun = s.now();
        op.start();
        EXPECT_TRUE(run_until(s, [&] { return t.finished(); }));
        EXPECT_FALSE(t.error);
        EXPECT_LT(s.now() - begun, 10s);
        other.cancel(s);
      },
      &modest);
}

TEST(simulated_ring, ends_a_cancelled_multishot_that_its_kernel_does_not_know) {
  for_seeds(
      2000,
      [](simulation& s) {
        dice d(s.seed());
        auto listener = s.listener();
        std::vector<unio::socket_handle> accepted;
        told t;
        auto op = connect(async_accept_many(listener), accepting_receiver{{&t}, &accepted});
        op.start();
        for (std::uint64_t turns = d.below(8); turns != 0; --turns) (void)s.multiplexer().complete_io();
        op.cancel();
        EXPECT_TRUE(run_until(s, [&] { return t.finished(); }));
        EXPECT_EQ(t.dones, 1);
        EXPECT_EQ(t.error, condition::canceled);
      },
      &modest);
}

} // namespace
