// when_all, when_all_succeed, when_any, timeout and task_group over simulated pipes: whatever is stopped, and
// whenever, no byte is lost, every child ends once, and nothing stays open.

#include "support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr std::size_t pipes = 4;

struct scenario {
  explicit scenario(simulation& s) : sim(s), chance(s.seed()) {
    for (std::size_t i = 0; i != pipes; ++i) {
      auto [r, w] = s.pipe();
      readers[i] = std::move(r);
      writers[i] = std::move(w);
    }
  }
  simulation& sim;
  dice chance;
  std::array<pipe_handle, pipes> readers, writers;
  std::array<std::size_t, pipes> written{}, read{};
  int begun = 0, ended = 0, live = 0;
  bool forgets_losers = false;
  stop_source stop;
};

// A frame that counts: however the task ends, by its value, an exception or destruction.
struct child {
  explicit child(scenario& s) : s_(s) {
    ++s.begun;
    ++s.live;
  }
  child(child const&) = delete;
  child& operator=(child const&) = delete;
  ~child() {
    --s_.live;
    ++s_.ended;
  }
  scenario& s_;
};

std::chrono::nanoseconds span(scenario& s) { return std::chrono::microseconds(s.chance.below(40)); }

// Writes what it says it has written, if it was not stopped first; and counts every byte that was taken.
task<io_result<void>> writes(scenario& s, std::size_t i, std::size_t bytes) {
  child const here(s);
  std::array<char, 64> const data{};
  std::size_t sent = 0;
  while (sent != bytes) {
    auto const r =
        co_await s.writers[i].co_write(const_buffer(data.data(), std::min(bytes - sent, data.size())));
    s.written[i] += r.bytes_transferred();
    sent += r.bytes_transferred();
    if (!r.has_value()) co_return io_result<void>(r.error(), sent);
  }
  co_return io_result<void>();
}

task<io_result<mutable_buffers>> reads(scenario& s, std::size_t i) {
  child const here(s);
  std::array<char, 48> room{};
  auto const r = co_await s.readers[i].co_read(mutable_buffer(room));
  co_return io_result<mutable_buffers>(r.has_value() ? result<mutable_buffers>(mutable_buffers()) : r.error(),
                                       r.bytes_transferred());
}

task<> sleeps(scenario& s) {
  child const here(s);
  (void)co_await co_sleep(span(s));
  if (s.chance.below(8) == 0) throw std::runtime_error("a child");
}

task<> steps(scenario& s) {
  for (std::uint64_t n = 3 + s.chance.below(4); n != 0; --n) {
    std::size_t const i = s.chance.below(pipes), j = (i + 1) % pipes;
    bool thrown = false;
    try {
      switch (s.chance.below(5)) {
        case 0: {
          auto [w, r] =
              co_await when_all(writes(s, i, 1 + s.chance.below(100)), timeout(span(s), reads(s, i)));
          s.read[i] += r.bytes_transferred();
          (void)w;
          break;
        }
        case 1: { // a loser that has read has its bytes in its outcome
          auto r = co_await when_any(reads(s, i), reads(s, j), co_sleep(span(s)));
          if (r.index == 0 || !s.forgets_losers)
            s.read[i] += std::get<0>(r.outcomes).value().bytes_transferred();
          if (r.index == 1 || !s.forgets_losers)
            s.read[j] += std::get<1>(r.outcomes).value().bytes_transferred();
          break;
        }
        case 2: {
          io_result<mutable_buffers> const r = co_await timeout(span(s), timeout(span(s), reads(s, i)));
          EXPECT_TRUE(r.has_value() || r.error() == condition::timed_out || s.stop.stop_requested());
          s.read[i] += r.bytes_transferred();
          break;
        }
        case 3: {
          std::vector<task<io_result<mutable_buffers>>> tasks;
          for (std::size_t k = 0; k != pipes; ++k) tasks.push_back(reads(s, k));
          auto bounded = [](std::vector<task<io_result<mutable_buffers>>>& all) -> task<> {
            (void)co_await when_all(all);
          };
          (void)co_await timeout(span(s), bounded(tasks));
          for (std::size_t k = 0; k != pipes; ++k)
            s.read[k] += take_outcome(tasks[k]).value().bytes_transferred();
          break;
        }
        case 4: {
          bool const joins = s.chance.below(4) != 0;
          task_group g(co_await this_coro::environment);
          for (std::uint64_t k = s.chance.below(5); k != 0; --k) {
            std::size_t const p = s.chance.below(pipes);
            if (joins)
              g.start(writes(s, p, 1 + s.chance.below(40))); // what a destroyed write moved nobody knows
            g.start(sleeps(s));
          }
          if (s.chance.below(3) == 0) g.request_stop();
          if (joins) co_await g.co_join();
          break; // else the group goes with what runs in it
        }
      }
    } catch (std::runtime_error const&) {
      thrown = true;
    }
    (void)thrown;
  }
}

// Fails at some moment, with an error or an exception of its own, unless it is stopped before.
task<result<int>> fails_sometimes(scenario& s, int who, std::vector<int>& failed) {
  child const here(s);
  for (std::uint64_t n = s.chance.below(4); n != 0; --n) {
    auto const slept = co_await co_sleep(span(s));
    if (!slept.has_value()) co_return slept.error();
  }
  std::uint64_t const how = s.chance.below(6);
  if (how < 2) failed.push_back(who);
  if (how == 0) co_return std::error_code(who, std::generic_category());
  if (how == 1) throw who;
  co_return who;
}

task<> succeeds_or_not(scenario& s, int& early) {
  for (int n = 0; n != 4; ++n) {
    std::vector<int> failed;
    int first = 0; // what is reported
    std::error_code error;
    bool const ranged = s.chance.below(2) == 0;
    std::vector<task<result<int>>> tasks;
    try {
      if (ranged) {
        for (int who = 1; who != 6; ++who) tasks.push_back(fails_sometimes(s, who, failed));
        auto const r = co_await when_all_succeed(tasks);
        error = r.error();
        if (r.has_value()) {
          int sum = 0;
          for (int const who : *r) sum += who;
          EXPECT_EQ(sum, 1 + 2 + 3 + 4 + 5);
        }
      } else {
        auto const r = co_await when_all_succeed(fails_sometimes(s, 1, failed), co_sleep(span(s)),
                                                 fails_sometimes(s, 2, failed));
        error = r.error();
        if (r.has_value()) {
          EXPECT_EQ(r.value(), std::tuple(1, 2));
        }
      }
      first = error.category() == std::generic_category() ? error.value() : 0;
    } catch (int who) {
      first = who;
    }
    tasks.clear();
    EXPECT_EQ(s.live, 0) << "it has waited for all";
    if (error == condition::canceled) {
      EXPECT_TRUE(s.stop.stop_requested());
    } else {
      EXPECT_EQ(first, failed.empty() ? 0 : failed.front());
    }
    early += failed.empty() ? 0 : 1;
  }
}

// What is still in the pipes.
task<> drain(scenario& s) {
  for (std::size_t i = 0; i != pipes; ++i) {
    (void)s.writers[i].close();
    for (;;) {
      std::array<char, 64> room{};
      auto const r = co_await s.readers[i].co_read(mutable_buffer(room));
      s.read[i] += r.bytes_transferred();
      if (!r.has_value() || r.bytes_transferred() == 0) break;
    }
    (void)s.readers[i].close();
  }
}

void play(simulation& sim, bool stops, int& lost, bool forgets_losers = false) {
  scenario s(sim);
  s.forgets_losers = forgets_losers;
  if (stops) sim.after(std::chrono::microseconds(s.chance.below(200)), [&s] { s.stop.request_stop(); });
  bool has_ended = false;
  async_run(sim.multiplexer(), steps(s), [&](task_outcome<void> const& o) { has_ended = o.has_value(); },
            {.stop = s.stop.get_token()});
  EXPECT_TRUE(run_until(sim, [&] { return has_ended; }));
  EXPECT_EQ(s.live, 0) << "a child outlives its scope";
  EXPECT_EQ(s.begun, s.ended);
  if (stops) (void)run_until(sim, [&] { return s.stop.stop_requested(); });
  bool drained = false;
  async_run(sim.multiplexer(), drain(s), [&](task_outcome<void> const& o) { drained = o.has_value(); });
  EXPECT_TRUE(run_until(sim, [&] { return drained; }));
  for (std::size_t i = 0; i != pipes; ++i) lost += s.read[i] != s.written[i];
}

SEEDED_TEST(simulated_combinators, lose_no_byte_whatever_is_stopped, 2000) {
  int lost = 0;
  play(s, s.seed() % 2 == 0, lost);
  EXPECT_EQ(lost, 0);
}

// The canary: bytes that losers have read are there, and would be missed.
TEST(simulated_combinators, would_lose_bytes_if_losers_were_forgotten) {
  int lost = 0;
  for_seeds(1000, [&](simulation& s) { play(s, false, lost, true); });
  EXPECT_GT(lost, 0);
}

TEST(simulated_combinators, when_all_succeed_reports_the_first_failure_and_nothing_else) {
  int early = 0, stopped = 0;
  for_seeds(1000, [&](simulation& sim) {
    scenario s(sim);
    bool const stops = sim.seed() % 3 == 0;
    if (stops) sim.after(std::chrono::microseconds(s.chance.below(200)), [&s] { s.stop.request_stop(); });
    bool has_ended = false;
    async_run(sim.multiplexer(), succeeds_or_not(s, early),
              [&](task_outcome<void> const& o) { has_ended = o.has_value(); }, {.stop = s.stop.get_token()});
    EXPECT_TRUE(run_until(sim, [&] { return has_ended; }));
    EXPECT_EQ(s.begun, s.ended);
    stopped += s.stop.stop_requested() ? 1 : 0;
    if (stops) (void)run_until(sim, [&] { return s.stop.stop_requested(); });
    for (std::size_t i = 0; i != pipes; ++i) (void)s.readers[i].close(), (void)s.writers[i].close();
  });
  EXPECT_GT(early, 0); // both were tried
  EXPECT_GT(stopped, 0);
}

TEST(simulated_combinators, replay_from_their_number) {
  for (std::uint64_t n = 0; n != 50; ++n) {
    std::uint64_t prints[2] = {};
    for (std::uint64_t& print : prints) {
      simulation s(simulation_options::from_seed(n));
      int lost = 0;
      play(s, true, lost);
      print = s.fingerprint();
    }
    EXPECT_EQ(prints[0], prints[1]);
  }
}

} // namespace
