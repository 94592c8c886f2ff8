// connect_any() in virtual time: when each attempt begins, who wins, and that no socket stays open whatever
// is slow, fails or is stopped.

#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/connect_any.hpp>

namespace {

using namespace test;
using milliseconds = std::chrono::milliseconds;

// What becomes of one address.
struct fate {
  milliseconds after;
  int error = 0; // 0: it connects
};

struct network {
  simulation& sim;
  unio::listening_socket_handle listener = sim.listener();
  std::vector<fate> fates;            // by port
  std::vector<milliseconds> begun{};  // of the attempts, in their order
  std::vector<std::uint16_t> ports{}; // likewise
  std::chrono::steady_clock::time_point start = sim.now();

  [[nodiscard]] milliseconds now() const {
    return std::chrono::duration_cast<milliseconds>(sim.now() - start);
  }
};

task<result<socket_handle>> attempt(void* context, endpoint const& to, unio::deadline d) {
  network& n = *static_cast<network*>(context);
  fate const f = n.fates.at(to.port());
  n.begun.push_back(n.now());
  n.ports.push_back(to.port());
  result<void> const slept = co_await unio::timeout(d, unio::co_sleep(f.after));
  if (!slept.has_value()) co_return slept.error();
  if (f.error != 0) co_return std::error_code(f.error, std::system_category());
  co_return n.sim.connect_to(n.listener);
}

// Addresses of both families in turns, their ports counting from 0.
std::vector<endpoint> addresses(std::size_t n) {
  std::vector<endpoint> all;
  for (std::size_t i = 0; i != n; ++i) {
    auto const port = static_cast<std::uint16_t>(i);
    all.push_back(i % 2 == 0 ? endpoint::ipv6_loopback(port) : endpoint::ipv4_loopback(port));
  }
  return all;
}

std::error_code race(network& n, unio::deadline d = {}, unio::connect_any_options options = {}) {
  std::vector<endpoint> const all = addresses(n.fates.size());
  return unio::run(n.sim.multiplexer(), unio::detail::connect_first(all, d, options, &attempt, &n)).error();
}

// Nothing random, so that the moments are exact.
simulation_options orderly() { return simulation_options::orderly(); }

TEST(connect_any_in_virtual_time, leaves_250_ms_to_each_attempt) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{10s}, {10s}, {10s}, {20ms}}};
  EXPECT_FALSE(race(n));
  EXPECT_EQ(n.begun, (std::vector<milliseconds>{0ms, 250ms, 500ms, 750ms}));
  EXPECT_EQ(n.now(), 770ms);
}

TEST(connect_any_in_virtual_time, tries_the_next_at_once_when_one_fails) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{10ms, ECONNREFUSED}, {10ms, ENETUNREACH}, {400ms}, {1ms}}};
  EXPECT_FALSE(race(n));
  EXPECT_EQ(n.begun, (std::vector<milliseconds>{0ms, 10ms, 20ms, 270ms}));
  EXPECT_EQ(n.now(), 271ms);
}

TEST(connect_any_in_virtual_time, tries_the_next_at_once_when_one_fails_before_it_has_waited) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{0ms, ENETUNREACH}, {1s}, {1s}}};
  EXPECT_FALSE(race(n));
  EXPECT_EQ(n.begun, (std::vector<milliseconds>{0ms, 0ms, 250ms}));
  EXPECT_EQ(n.now(), 1000ms);
}

TEST(connect_any_in_virtual_time, takes_the_first_to_connect_although_it_began_first) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{300ms}, {100ms}}};
  std::vector<unio::connect_attempt> attempts;
  EXPECT_FALSE(race(n, {}, {.attempts = &attempts}));
  EXPECT_EQ(n.now(), 300ms);
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_FALSE(attempts[0].why);
  EXPECT_EQ(attempts[1].why, condition::canceled);
}

TEST(connect_any_in_virtual_time, stops_all_of_them_at_its_deadline) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{10s}, {10s}, {10s}}};
  EXPECT_EQ(race(n, 300ms), condition::timed_out);
  EXPECT_EQ(n.begun, (std::vector<milliseconds>{0ms, 250ms}));
  EXPECT_EQ(n.now(), 300ms);
}

TEST(connect_any_in_virtual_time, uses_the_delay_that_it_is_given) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{10s}, {10s}, {1ms}}};
  EXPECT_FALSE(race(n, {}, {.attempt_delay = 100ms}));
  EXPECT_EQ(n.begun, (std::vector<milliseconds>{0ms, 100ms, 200ms}));
}

TEST(connect_any_in_virtual_time, reports_the_first_error_that_another_host_gave) {
  simulation sim(orderly());
  network n{sim, sim.listener(), {{0ms, ENETUNREACH}, {1ms, EHOSTUNREACH}, {1ms, ECONNREFUSED}}};
  EXPECT_EQ(race(n), std::errc::host_unreachable);
}

// The kernel, too, gives up on an address with the error of a deadline.
TEST(connect_any_in_virtual_time, does_not_take_what_the_kernel_gives_up_for_its_deadline) {
  for (unio::deadline const limit : {unio::deadline(), unio::deadline(1h)}) {
    simulation sim(orderly());
    network n{sim, sim.listener(), {{1ms, ECONNREFUSED}, {120s, ETIMEDOUT}}};
    EXPECT_EQ(race(n, limit), std::errc::connection_refused);
    EXPECT_EQ(n.now(), 120'001ms);
  }
}

// What must come of it, whatever the order of events: a socket if any address connects in time.
TEST(connect_any_in_virtual_time, leaves_no_socket_open_whatever_happens) {
  int connected = 0, stopped = 0, late = 0, failed = 0;
  for_seeds(1000, [&](simulation& sim) {
    dice d{sim.seed()};
    network n{sim, sim.listener(), {}};
    for (std::uint64_t i = 1 + d.below(5); i != 0; --i)
      n.fates.push_back({milliseconds(d.below(800)), d.below(2) == 0 ? 0 : ECONNREFUSED});
    unio::deadline const limit =
        d.below(3) == 0 ? unio::deadline(milliseconds(d.below(600))) : unio::deadline();
    unio::stop_source stop;
    if (d.below(3) == 0) sim.after(milliseconds(d.below(600)), [&stop] { stop.request_stop(); });
    std::vector<endpoint> const all = addresses(n.fates.size());
    bool some = false;
    for (fate const& f : n.fates) some = some || f.error == 0;
    std::vector<unio::connect_attempt> attempts;
    {
      auto const r = unio::run(sim.multiplexer(),
                               unio::detail::connect_first(all, limit, {.attempts = &attempts}, &attempt, &n),
                               {.stop = stop.get_token()});
      EXPECT_EQ(attempts.size(), n.begun.size());
      int successes = 0;
      for (auto const& a : attempts) successes += a.why ? 0 : 1;
      EXPECT_EQ(successes, r.has_value() ? 1 : 0);
      if (r.has_value()) {
        ++connected;
        EXPECT_TRUE(some);
      } else if (r.error() == condition::canceled) {
        ++stopped;
        EXPECT_TRUE(stop.stop_requested());
      } else if (r.error() == condition::timed_out || r.error() == condition::would_block) {
        ++late;
        EXPECT_FALSE(limit.is_none());
      } else {
        ++failed;
        EXPECT_EQ(r.error(), std::errc::connection_refused);
        EXPECT_TRUE(!some || !limit.is_none());
      }
    }
    while (sim.multiplexer().counters().started != sim.multiplexer().counters().finished)
      (void)sim.multiplexer().run();
    sim.advance(2s); // so that the stop comes, if it has not
    (void)sim.multiplexer().try_run();
    (void)n.listener.close();
  });
  // All of it was met.
  EXPECT_GT(connected, 100);
  EXPECT_GT(stopped, 20);
  EXPECT_GT(late, 20);
  EXPECT_GT(failed, 20);
}

} // namespace
