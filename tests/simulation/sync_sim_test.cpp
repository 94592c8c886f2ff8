// What coroutines wait for each other with, on the simulation: tasks that yield, are stopped and are
// destroyed at moments that the simulation's number draws. Whatever happens, a mutex has one holder, no
// permit and no value is lost or doubled, and every wait ends.

#include "coro/waiting.hpp"
#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Tasks on a simulation, each with a stop of its own.
class cast {
 public:
  explicit cast(simulation& s) : s_(s), dice_(s.seed() * 31 + 7) {
    (void)s.multiplexer().try_run(); // this thread runs it
  }
  dice& chance() { return dice_; }
  void add(task<> t) {
    stop_source& stop = stops_.emplace_back();
    players_.emplace_back(s_.multiplexer(), std::move(t), stop.get_token());
  }
  // Starts all in some order, with stops and destructions between turns; then stops all who are left.
  void play(std::uint64_t turns) {
    std::vector<chain*> waiting;
    for (chain& c : players_) waiting.push_back(&c);
    for (std::uint64_t i = 0; i != turns || !waiting.empty(); i += i != turns ? 1 : 0) {
      if (!waiting.empty() && dice_.below(2) == 0) {
        std::size_t const n = dice_.below(waiting.size());
        chain& c = *waiting[n];
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(n));
        c.start();
      }
      std::size_t const who = dice_.below(players_.size());
      bool const begun = std::find(waiting.begin(), waiting.end(), &players_[who]) == waiting.end();
      switch (dice_.below(24)) {
        case 0:
          stops_[who].request_stop();
          break;
        case 1:
          if (begun && dice_.below(2) == 0) players_[who].destroy(), gone_.push_back(&players_[who]);
          break;
        default:
          break;
      }
      (void)s_.multiplexer().try_run();
    }
    for (stop_source& stop : stops_) stop.request_stop();
    EXPECT_TRUE(run_until(s_, [&] {
      (void)s_.multiplexer().try_run();
      return std::all_of(players_.begin(), players_.end(), [&](chain& c) {
        return c.ended() || std::find(gone_.begin(), gone_.end(), &c) != gone_.end();
      });
    })) << "somebody waits for ever";
    for (chain& c : players_) c.destroy();
  }

 private:
  simulation& s_;
  dice dice_;
  std::deque<stop_source> stops_;
  std::deque<chain> players_;
  std::vector<chain*> gone_;
};

task<> yield(dice& d) {
  for (std::uint64_t n = d.below(3); n != 0; --n) (void)co_await unio::co_no_op();
}

// Counts those who are somewhere, also if they are destroyed there.
class inside {
 public:
  inside(int& n, int k) : n_(n), k_(k) { n_ += k; }
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
  ~inside() { n_ -= k_; }

 private:
  int& n_;
  int k_;
};

task<> locks(unio::async_mutex& m, int& holders, dice& d) {
  for (int i = 0; i != 4; ++i) {
    auto g = co_await m.co_lock();
    if (!g.has_value()) {
      EXPECT_EQ(g.error(), condition::canceled);
      co_return;
    }
    inside const here(holders, 1);
    EXPECT_EQ(holders, 1);
    co_await yield(d);
    EXPECT_EQ(holders, 1);
  }
}

SEEDED_TEST(simulated_mutex, has_one_holder_and_is_free_at_the_end, 1000) {
  unio::async_mutex m;
  int holders = 0;
  cast c(s);
  for (std::uint64_t n = 2 + c.chance().below(4); n != 0; --n) c.add(locks(m, holders, c.chance()));
  c.play(60);
  EXPECT_EQ(holders, 0);
  EXPECT_TRUE(m.try_lock());
}

struct permits_back {
  unio::semaphore& s;
  std::uint32_t k;
  permits_back(unio::semaphore& of, std::uint32_t n) : s(of), k(n) {}
  permits_back(permits_back const&) = delete;
  permits_back& operator=(permits_back const&) = delete;
  ~permits_back() { s.release(k); }
};

task<> acquires(unio::semaphore& s, std::uint32_t total, int& out, dice& d) {
  for (int i = 0; i != 4; ++i) {
    auto const k = static_cast<std::uint32_t>(1 + d.below(total));
    auto const r = co_await s.co_acquire(k);
    if (!r.has_value()) co_return;
    permits_back const back(s, k);
    inside const here(out, static_cast<int>(k));
    EXPECT_LE(out, static_cast<int>(total));
    co_await yield(d);
  }
}

SEEDED_TEST(simulated_semaphore, neither_loses_nor_invents_a_permit, 1000) {
  cast c(s);
  auto const total = static_cast<std::uint32_t>(1 + c.chance().below(4));
  unio::semaphore sem(total);
  int out = 0;
  for (std::uint64_t n = 2 + c.chance().below(4); n != 0; --n) c.add(acquires(sem, total, out, c.chance()));
  c.play(60);
  EXPECT_EQ(out, 0);
  EXPECT_TRUE(sem.try_acquire(total));
  EXPECT_FALSE(sem.try_acquire());
}

task<> waits_for_event(unio::event& e, unio::auto_reset_event& a, int& passed, dice& d) {
  for (int i = 0; i != 4; ++i) {
    if (auto const r = co_await e.co_wait(); !r.has_value()) co_return;
    co_await yield(d);
    if (auto const r = co_await a.co_wait(); !r.has_value()) co_return;
    ++passed;
  }
}

task<> sets_events(unio::event& e, unio::auto_reset_event& a, int& set, dice& d) {
  for (int i = 0; i != 8; ++i) {
    e.set();
    co_await yield(d);
    if (d.below(2) == 0) e.reset();
    a.set();
    ++set;
    co_await yield(d);
  }
}

SEEDED_TEST(simulated_events, let_nobody_through_who_was_not_let, 1000) {
  unio::event e;
  unio::auto_reset_event a;
  int passed = 0, set = 0;
  cast c(s);
  c.add(sets_events(e, a, set, c.chance()));
  for (std::uint64_t n = 1 + c.chance().below(4); n != 0; --n)
    c.add(waits_for_event(e, a, passed, c.chance()));
  c.play(60);
  EXPECT_LE(passed, set);
}

task<> arrives(unio::rendezvous<>& b, unio::latch& l, int& before, int& after, int n, dice& d) {
  co_await yield(d);
  ++before;
  if (auto const r = co_await b.co_arrive_and_wait(); !r.has_value()) {
    EXPECT_EQ(r.error(), condition::canceled);
  } else {
    ++after;
    EXPECT_GE(before, n) << "let go on before all had come";
  }
  co_await yield(d);
  l.count_down();
  if (auto const r = co_await l.co_wait(); r.has_value()) {
    EXPECT_TRUE(l.try_wait());
  }
}

SEEDED_TEST(simulated_rendezvous, lets_as_many_through_as_take_part_or_nobody, 1000) {
  cast c(s);
  auto const n = static_cast<int>(1 + c.chance().below(4));
  auto const more = static_cast<int>(c.chance().below(3)); // in the place of those that are stopped
  unio::rendezvous<> b(static_cast<std::uint32_t>(n));
  unio::latch l(static_cast<std::uint32_t>(n + more));
  int before = 0, after = 0;
  for (int i = 0; i != n + more; ++i) c.add(arrives(b, l, before, after, n, c.chance()));
  c.play(40);
  EXPECT_LE(after, n + more);
}

// A value that says when it is destroyed without having been received.
struct accounts {
  int made = 0, received = 0, returned = 0;
};

task<> sends(unio::channel<std::unique_ptr<int>>& c, accounts& a, int who, int& next, dice& d) {
  for (int i = 0; i != 6; ++i) {
    auto value = std::make_unique<int>(who * 100 + next);
    auto const r = co_await c.co_send(std::move(value));
    EXPECT_EQ(r.has_value(), value == nullptr);
    if (!r.has_value()) {
      EXPECT_TRUE(r.error() == condition::canceled || r.error() == std::errc::broken_pipe);
      co_return;
    }
    ++next; // not reached if it is destroyed after the value was taken: then `made` is a bound
    ++a.made;
    co_await yield(d);
    if (d.below(40) == 0) c.close();
  }
}

task<> receives(unio::channel<std::unique_ptr<int>>& c, accounts& a, std::vector<int>& seen, dice& d) {
  for (;;) {
    auto const r = co_await c.co_receive();
    if (!r.has_value()) {
      if (r.error() == condition::end_of_stream) {
        EXPECT_TRUE(c.is_closed());
        EXPECT_EQ(c.size(), 0u) << "told of the end before it";
      } else {
        EXPECT_EQ(r.error(), condition::canceled);
      }
      co_return;
    }
    seen.push_back(**r);
    ++a.received;
    co_await yield(d);
  }
}

TEST(simulated_channel, delivers_each_value_once_and_in_order) {
  int closed = 0, drained = 0;
  for_seeds(2000, [&](simulation& s) {
    cast c(s);
    unio::channel<std::unique_ptr<int>> ch(c.chance().below(4));
    accounts a;
    std::vector<int> seen;
    std::deque<int> next;
    int const senders = static_cast<int>(1 + c.chance().below(3));
    for (int i = 0; i != senders; ++i) c.add(sends(ch, a, i, next.emplace_back(0), c.chance()));
    for (std::uint64_t n = 1 + c.chance().below(3); n != 0; --n) c.add(receives(ch, a, seen, c.chance()));
    c.play(80);
    closed += ch.is_closed() ? 1 : 0;
    while (auto r = ch.try_receive()) {
      seen.push_back(**r);
      ++a.returned;
    }
    drained += a.returned;
    EXPECT_EQ(ch.size(), 0u);
    // Each sender's values: 0, 1, 2 … without a gap, at most one more than it lived to know of.
    for (int i = 0; i != senders; ++i) {
      int expected = 0;
      for (int const v : seen)
        if (v / 100 == i) {
          EXPECT_EQ(v % 100, expected++);
        }
      EXPECT_GE(expected, next[static_cast<std::size_t>(i)]) << "lost what was sent";
      EXPECT_LE(expected, next[static_cast<std::size_t>(i)] + 1) << "invented something";
    }
  });
  // The canary: if these do not happen, nothing above is tested.
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(closed, 0);
    EXPECT_GT(drained, 0);
  }
}

} // namespace
