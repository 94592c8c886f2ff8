// co_for_each_connection with accepting failing at random: each connection is given to the function once,
// what is stopped or destroyed ends, and no descriptor stays open.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr int passing_errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, ECONNABORTED, EOPNOTSUPP};

struct server {
  unio::listening_socket_handle listening;
  std::vector<unio::socket_handle> clients;
  std::vector<unio::socket_handle> accepted;
  std::size_t shortages = 0;
  unio::result<void> ended;
};

task<> accepts(server& s) {
  s.ended = co_await unio::co_for_each_connection(
      s.listening, [&s](unio::socket_handle h) { s.accepted.push_back(std::move(h)); },
      [&s](std::error_code) { ++s.shortages; });
}

task<> connects(simulation& sim, server& s, std::size_t n, dice d) {
  for (std::size_t i = 0; i != n; ++i) {
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(20'000)));
    s.clients.push_back(sim.connect_to(s.listening));
  }
}

void fail_at_random(simulation& sim, dice& d) {
  for (std::uint64_t faults = d.below(10); faults != 0; --faults)
    sim.fail("accept4", static_cast<int>(1 + d.below(20)),
             passing_errors[d.below(std::size(passing_errors))]);
}

void close_all(server& s) {
  s.clients.clear();
  s.accepted.clear();
  (void)s.listening.close();
}

TEST(simulated_accept_loop, gives_each_connection_to_the_function_once) {
  for_seeds(1000, [](simulation& sim) {
    dice d{sim.seed()};
    server s;
    s.listening = sim.listener();
    fail_at_random(sim, d);
    std::size_t const n = 1 + d.below(12);
    unio::run(sim.multiplexer(), [](simulation& in, server& of, std::size_t all, dice dies) -> task<> {
      auto all_accepted = [](server& looked_at, std::size_t wanted) -> task<> {
        for (int ms = 0; ms != 10'000 && looked_at.accepted.size() < wanted; ++ms)
          (void)co_await unio::co_sleep(1ms);
      };
      auto both = [](simulation& x, server& y, std::size_t wanted, dice z, auto until) -> task<> {
        co_await connects(x, y, wanted, z);
        co_await until(y, wanted);
      };
      (void)co_await unio::when_any(both(in, of, all, dies, all_accepted),
                                    unio::timeout(1h, [](server& it) -> task<unio::result<void>> {
                                      co_await accepts(it);
                                      co_return it.ended;
                                    }(of)));
    }(sim, s, n, d));
    EXPECT_EQ(s.accepted.size(), n);
    EXPECT_EQ(s.ended.error(), condition::canceled);
    close_all(s);
    expect_at_rest(sim);
  });
}

TEST(simulated_accept_loop, that_is_stopped_or_destroyed_leaks_nothing) {
  for_seeds(1000, [](simulation& sim) {
    dice d{sim.seed()};
    server s;
    s.ended = {};
    s.listening = sim.listener();
    fail_at_random(sim, d);
    bool const destroyed = d.below(2) == 0;
    unio::run(sim.multiplexer(), [](simulation& in, server& of, dice dies, bool leaves) -> task<> {
      unio::task_group connecting(co_await unio::this_coro::environment);
      connecting.start(connects(in, of, 8, dies));
      {
        unio::task_group accepting(co_await unio::this_coro::environment);
        accepting.start(accepts(of));
        (void)co_await unio::co_sleep(std::chrono::microseconds(dies.below(100'000)));
        if (!leaves) {
          accepting.request_stop();
          co_await accepting.co_join();
        }
      }
      co_await connecting.co_join();
    }(sim, s, d, destroyed));
    if (!destroyed) {
      EXPECT_EQ(s.ended.error(), condition::canceled);
    }
    EXPECT_LE(s.accepted.size(), s.clients.size());
    close_all(s);
    expect_at_rest(sim);
  });
}

} // namespace
