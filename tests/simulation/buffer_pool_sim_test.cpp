// Connections that share few buffers, in the simulation: whatever is delayed, cancelled or closed, each byte
// arrives once and in order, no buffer is lost, and no connection waits for ever.

#include "simulation/support.hpp"

#include <unio/unio.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace test;
using namespace std::chrono_literals;
using unio::condition;
using unio::task;

struct one_connection {
  unio::socket_pair ends;
  std::string sent;
  std::string received;
  bool ended = false;
};

task<> sends(one_connection& c, dice d) {
  for (std::size_t at = 0; at < c.sent.size();) {
    std::size_t const n = std::min(c.sent.size() - at, std::size_t{1} + d.below(40));
    auto const r = co_await c.ends.second.co_write(unio::const_buffer(c.sent.data() + at, n));
    if (!r.has_value()) co_return;
    at += r.bytes_transferred();
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(100)));
  }
  (void)c.ends.second.shutdown(unio::socket_handle::side::send);
}

// Gives up waiting now and then, and keeps what it got for a while.
task<> receives(one_connection& c, unio::buffer_pool& pool, dice d) {
  for (;;) {
    bool const is_patient = d.below(3) != 0;
    unio::deadline const within =
        is_patient ? unio::deadline::none() : std::chrono::microseconds(d.below(80));
    auto got = co_await c.ends.first.co_receive(pool, within);
    if (!got.has_value()) {
      EXPECT_TRUE(got.error() == condition::timed_out || got.error() == condition::would_block)
          << got.error().message();
      continue;
    }
    if (!*got) break;
    c.received.append(reinterpret_cast<char const*>(got->data()), got->size());
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(100)));
  }
  c.ended = true;
}

TEST(simulated_pool, loses_no_byte_and_no_buffer) {
  for_seeds(1000, [](simulation& sim) {
    dice d(sim.seed());
    unio::buffer_pool pool(1 + d.below(3), 1 + d.below(64));
    std::vector<std::unique_ptr<one_connection>> all(2 + d.below(6));
    for (auto& c : all) {
      c = std::make_unique<one_connection>();
      c->ends = sim.stream_pair();
      for (std::size_t n = d.below(300); n != 0; --n) c->sent.push_back(static_cast<char>('a' + d.below(26)));
      unio::async_run(sim.multiplexer(), receives(*c, pool, dice(d.below(1 << 20))));
      unio::async_run(sim.multiplexer(), sends(*c, dice(d.below(1 << 20))));
    }
    EXPECT_TRUE(run_until(sim, [&] {
      for (auto const& c : all)
        if (!c->ended) return false;
      return true;
    }));
    for (auto const& c : all) EXPECT_EQ(c->received, c->sent);
    EXPECT_EQ(pool.lent(), 0u);
  });
}

// Handles are closed and multiplexers stopped while operations wait for bytes or buffers.
TEST(simulated_pool, gets_its_buffers_back_from_what_is_stopped) {
  for_seeds(1000, [](simulation& sim) {
    dice d(sim.seed());
    unio::buffer_pool pool(1 + d.below(2), 16);
    struct notes {
      int* ended;
      static void set_value(unio::io_result<unio::lent_buffer>&&) noexcept {}
      void set_done() const noexcept { ++*ended; }
    };
    int ended = 0;
    std::vector<unio::socket_pair> pairs;
    std::size_t const n = 2 + d.below(5);
    pairs.reserve(n);
    using many = decltype(unio::connect(unio::async_receive_many(pairs[0].first, pool), notes{&ended}));
    std::vector<std::unique_ptr<many>> operations;
    for (std::size_t i = 0; i != n; ++i) {
      pairs.push_back(sim.stream_pair());
      operations.push_back(
          std::make_unique<many>(unio::async_receive_many(pairs[i].first, pool), notes{&ended}));
      operations.back()->start();
      (void)pairs[i].second.write(unio::const_buffer("some bytes, more than one buffer", 32));
    }
    unio::lent_buffer held = pool.try_take();
    for (std::uint64_t turns = d.below(20); turns != 0; --turns) (void)sim.multiplexer().try_run_for(1us);
    for (std::size_t i = 0; i != n; ++i) {
      if (d.below(3) == 0) held.reset();
      switch (d.below(3)) {
        case 0:
          operations[i]->cancel();
          break;
        case 1:
          EXPECT_TRUE(pairs[i].first.close().has_value());
          break;
        case 2:
          ended += operations[i]->finished() ? 0 : 1; // its receiver is not notified
          operations[i].reset();
          break;
      }
    }
    held.reset();
    EXPECT_TRUE(run_until(sim, [&] { return ended == static_cast<int>(n); }));
    EXPECT_EQ(pool.lent(), 0u);
  });
}

} // namespace
