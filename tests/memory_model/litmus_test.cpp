// The checker itself: that it allows what the memory model allows, and nothing else, on programs whose
// answers are known (Alglave, Maranget, Tautschnig, "Herding Cats", TOPLAS 2014, for their names); that it
// notices races and forgotten sleepers; that the reduction loses nothing.

#include "memory_model/checker.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace memory_model;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto seq_cst = std::memory_order_seq_cst;

// Locations x and y, and what was read.
struct program {
  atomic<std::uint32_t> x, y;
  plain<int> data;
  int read[4] = {};
};

struct outcome {
  std::set<std::string> all;
  report r;
  [[nodiscard]] bool has(char const* one) const { return all.contains(one); }
};

// What is read by the threads, in all executions: by the reduced search, which must find what the full one
// finds.
template <class F> outcome outcomes_of(F const& threads) {
  auto const run = [&](options const& o) {
    outcome found;
    found.r = explore(o, [&](world& w) {
      auto const p = std::make_shared<program>();
      threads(w, *p);
      w.at_end([&found, p] {
        std::string s;
        for (int v : p->read) s += std::to_string(v);
        found.all.insert(s);
      });
    });
    return found;
  };
  outcome const full = run({.reduction = false});
  outcome reduced = run({});
  EXPECT_EQ(full.all, reduced.all);
  EXPECT_EQ(full.r.error.empty(), reduced.r.error.empty());
  EXPECT_EQ(full.r.unordered == 0, reduced.r.unordered == 0);
  EXPECT_LE(reduced.r.executions, full.r.executions);
  std::printf("[ executed ] %llu executions, %llu without the reduction\n",
              static_cast<unsigned long long>(reduced.r.executions),
              static_cast<unsigned long long>(full.r.executions));
  return reduced;
}

outcome store_buffering(std::memory_order stores, std::memory_order loads) {
  return outcomes_of([=](world& w, program& p) {
    w.thread([=, &p] { p.x.store(1, stores), p.read[0] = static_cast<int>(p.y.load(loads)); });
    w.thread([=, &p] { p.y.store(1, stores), p.read[1] = static_cast<int>(p.x.load(loads)); });
  });
}

TEST(memory_model, store_buffering_is_forbidden_only_if_all_is_sequentially_consistent) {
  EXPECT_EQ(store_buffering(relaxed, relaxed).all, (std::set<std::string>{"0000", "0100", "1000", "1100"}));
  EXPECT_TRUE(store_buffering(release, acquire).has("0000"));
  EXPECT_TRUE(store_buffering(seq_cst, acquire).has("0000"));
  EXPECT_TRUE(store_buffering(release, seq_cst).has("0000"));
  EXPECT_EQ(store_buffering(seq_cst, seq_cst).all, (std::set<std::string>{"0100", "1000", "1100"}));
}

outcome exchange_buffering(std::memory_order exchanges, std::memory_order loads) {
  return outcomes_of([=](world& w, program& p) {
    w.thread([=, &p] { p.x.fetch_or(1, exchanges), p.read[0] = static_cast<int>(p.y.load(loads)); });
    w.thread([=, &p] { p.y.fetch_or(1, exchanges), p.read[1] = static_cast<int>(p.x.load(loads)); });
  });
}

TEST(memory_model, an_exchange_is_no_fence) {
  EXPECT_TRUE(exchange_buffering(acq_rel, acquire).has("0000"));
  EXPECT_TRUE(exchange_buffering(seq_cst, acquire).has("0000"));
  EXPECT_FALSE(exchange_buffering(seq_cst, seq_cst).has("0000"));
}

outcome message_passing(std::memory_order stores, std::memory_order loads) {
  return outcomes_of([=](world& w, program& p) {
    w.thread([=, &p] { p.x.store(1, relaxed), p.y.store(1, stores); });
    w.thread([=, &p] {
      p.read[0] = static_cast<int>(p.y.load(loads));
      p.read[1] = static_cast<int>(p.x.load(relaxed));
    });
  });
}

TEST(memory_model, a_message_is_passed_by_release_and_acquire) {
  EXPECT_TRUE(message_passing(relaxed, relaxed).has("1000"));
  EXPECT_TRUE(message_passing(release, relaxed).has("1000"));
  EXPECT_TRUE(message_passing(relaxed, acquire).has("1000"));
  EXPECT_EQ(message_passing(release, acquire).all, (std::set<std::string>{"0000", "0100", "1100"}));
}

outcome two_readers(std::memory_order o) {
  return outcomes_of([=](world& w, program& p) {
    w.thread([=, &p] { p.x.store(1, o == seq_cst ? seq_cst : release); });
    w.thread([=, &p] { p.y.store(1, o == seq_cst ? seq_cst : release); });
    w.thread([=, &p] {
      p.read[0] = static_cast<int>(p.x.load(o));
      p.read[1] = static_cast<int>(p.y.load(o));
    });
    w.thread([=, &p] {
      p.read[2] = static_cast<int>(p.y.load(o));
      p.read[3] = static_cast<int>(p.x.load(o));
    });
  });
}

TEST(memory_model, readers_of_independent_writes_agree_only_if_all_is_sequentially_consistent) {
  EXPECT_TRUE(two_readers(acquire).has("1010"));
  outcome const agree = two_readers(seq_cst);
  EXPECT_FALSE(agree.has("1010"));
  EXPECT_EQ(agree.all.size(), 15u);
}

TEST(memory_model, reads_of_one_location_do_not_go_back) {
  outcome const o = outcomes_of([](world& w, program& p) {
    w.thread([&p] { p.x.store(1, relaxed), p.x.store(2, relaxed); });
    w.thread([&p] {
      p.read[0] = static_cast<int>(p.x.load(relaxed));
      p.read[1] = static_cast<int>(p.x.load(relaxed));
    });
  });
  EXPECT_EQ(o.all, (std::set<std::string>{"0000", "0100", "0200", "1100", "1200", "2200"}));
}

TEST(memory_model, a_compare_exchange_may_fail_with_an_old_value_but_replaces_the_newest) {
  outcome const o = outcomes_of([](world& w, program& p) {
    w.thread([&p] { p.x.store(1, relaxed), p.x.store(2, relaxed); });
    w.thread([&p] {
      std::uint32_t expected = 2;
      p.read[0] = p.x.compare_exchange_strong(expected, 3, relaxed) ? 9 : static_cast<int>(expected);
    });
  });
  EXPECT_EQ(o.all, (std::set<std::string>{"0000", "1000", "9000"}));
}

outcome passed_on(bool by_exchange) {
  return outcomes_of([=](world& w, program& p) {
    w.thread([&p] { p.data.write(1), p.x.store(1, release); });
    w.thread([=, &p] {
      if (p.x.load(relaxed) != 1) return;
      if (by_exchange) {
        p.x.fetch_add(1, relaxed);
      } else {
        p.x.store(2, relaxed);
      }
    });
    w.thread([&p] {
      if (p.x.load(acquire) == 2) p.read[0] = p.data.read();
    });
  });
}

TEST(memory_model, an_exchange_continues_a_release_sequence_and_a_store_does_not) {
  EXPECT_EQ(passed_on(true).r.error, "");
  EXPECT_NE(passed_on(false).r.error.find("data race"), std::string::npos);
}

outcome guarded(std::memory_order locks, std::memory_order unlocks) {
  return outcomes_of([=](world& w, program& p) {
    for (int i = 0; i != 2; ++i)
      w.thread([=, &w, &p] {
        while (p.x.exchange(1, locks) != 0) w.spin();
        p.data.write(p.data.read() + 1);
        p.x.store(0, unlocks);
      });
    w.at_end([&p] { p.read[0] = p.data.read(); });
  });
}

TEST(memory_model, data_races_under_a_lock_that_does_not_synchronize) {
  EXPECT_EQ(guarded(acquire, release).r.error, "");
  EXPECT_NE(guarded(relaxed, release).r.error.find("data race"), std::string::npos);
  EXPECT_NE(guarded(acquire, relaxed).r.error.find("data race"), std::string::npos);
}

TEST(memory_model, counts_stores_whose_place_in_the_modification_order_is_open) {
  outcome const open = outcomes_of([](world& w, program& p) {
    w.thread([&p] { p.x.store(1, relaxed); });
    w.thread([&p] { p.x.store(2, relaxed); });
  });
  EXPECT_NE(open.r.unordered, 0u);
  EXPECT_EQ(message_passing(release, acquire).r.unordered, 0u);
}

// One sleeps until x is 1. `changes_first`: y, which it sleeps on, is changed after x and before the wake-up.
report sleeper(bool changes_first, std::memory_order o) {
  return explore({}, [=](world& w) {
    auto const p = std::make_shared<program>();
    w.thread([=, &w] {
      for (;;) {
        std::uint32_t const seen = p->y.load(o);
        if (p->x.load(o) == 1) return;
        sleep_on(p->y, seen, w.now() + 1000, false);
      }
    });
    w.thread([=] {
      p->x.store(1, o);
      if (changes_first) p->y.fetch_add(1, o);
      wake_sleepers(p->y, 1);
    });
  });
}

TEST(memory_model, notices_a_sleeper_whom_nobody_wakes) {
  EXPECT_EQ(sleeper(true, seq_cst).error, "");
  EXPECT_EQ(sleeper(true, acq_rel).error, "");
  EXPECT_NE(sleeper(false, seq_cst).error.find("forgotten"), std::string::npos);
}

// Before each of its stores, or not at all.
TEST(memory_model, a_thread_dies_between_any_two_steps_and_lets_go_of_its_locks) {
  outcome const o = outcomes_of([](world& w, program& p) {
    auto const locks = std::make_shared<kernel_locks>();
    locks->hold_from_the_start(0, 0);
    w.thread([&p] {
      p.data.write(1);
      p.x.store(1, relaxed);
      p.x.store(2, relaxed);
      p.x.store(3, relaxed);
    });
    w.thread([&p, locks] {
      if (!locks->try_hold(0)) return;
      p.read[0] = static_cast<int>(p.x.load(relaxed)) + 1;
      p.read[1] = p.data.read();
    });
    w.may_die(0);
  });
  EXPECT_EQ(o.all, (std::set<std::string>{"0000", "1100", "2100", "3100"}));
}

// Programs of two and three threads, three operations each, any operations of any order, sleeping and dying
// among them.
TEST(memory_model, the_reduction_finds_what_the_full_search_finds_in_random_programs) {
  std::uint64_t executions[2] = {};
  for (unsigned seed = 1; seed != 1500; ++seed) {
    unsigned state = seed * 2654435761u;
    auto const any = [&](unsigned n) {
      state = state * 1664525u + 1013904223u;
      return (state >> 16) % n;
    };
    struct step {
      unsigned what, where, order;
    };
    std::vector<std::vector<step>> code(2 + any(2));
    for (auto& t : code)
      for (unsigned i = 0; i != (code.size() == 2 ? 4u : 3u); ++i) t.push_back({any(10), any(2), any(4)});
    bool const may_die = any(3) == 0;
    auto const run = [&](bool reduction) {
      std::set<std::string> all;
      report const r = explore({.reduction = reduction, .may_stall = true}, [&](world& w) {
        auto const p = std::make_shared<program>();
        auto const locks = std::make_shared<kernel_locks>();
        auto const read = std::make_shared<std::vector<std::string>>(code.size());
        locks->hold_from_the_start(0, 0);
        for (std::size_t t = 0; t != code.size(); ++t)
          w.thread([&w, t, p, locks, read, steps = code[t]] {
            constexpr std::memory_order orders[] = {relaxed, acquire, release, seq_cst};
            std::string& got = (*read)[t];
            for (step const& s : steps) {
              auto& at = s.where == 0 ? p->x : p->y;
              auto const o = orders[s.order];
              auto const add = [&](std::uint32_t v) { got += static_cast<char>('0' + v); };
              std::uint32_t expected = 1;
              switch (s.what) {
                case 0:
                case 1:
                case 2:
                  add(at.load(o));
                  break;
                case 3:
                  at.store(1, o);
                  break;
                case 4:
                  at.store(2, o);
                  break;
                case 5:
                  add(at.fetch_add(1, o));
                  break;
                case 6:
                  add(at.compare_exchange_strong(expected, 3, o)), add(expected);
                  break;
                case 7:
                  sleep_on(at, 0, w.now() + 100, false);
                  break;
                case 8:
                  add(static_cast<std::uint32_t>(wake_sleepers(at, 1)));
                  break;
                default:
                  add(locks->try_hold(0));
                  break;
              }
            }
            got += '.';
          });
        if (may_die) w.may_die(0);
        w.at_end([&all, read] {
          std::string s;
          for (auto const& one : *read) s += one + " ";
          all.insert(s);
        });
      });
      EXPECT_EQ(r.error, "") << r.how;
      EXPECT_TRUE(r.is_complete);
      executions[reduction ? 1 : 0] += r.executions + r.redundant;
      return all;
    };
    ASSERT_EQ(run(false), run(true)) << "seed " << seed;
  }
  std::printf("[ executed ] %llu executions, %llu without the reduction\n",
              static_cast<unsigned long long>(executions[1]), static_cast<unsigned long long>(executions[0]));
}

// Two preemptions are needed for x to be read twice before it is written.
TEST(memory_model, a_bound_on_preemptions_is_kept) {
  auto const lost = [](int bound) {
    bool found = false;
    report const r = explore({.preemptions = bound}, [&](world& w) {
      auto const p = std::make_shared<program>();
      for (int i = 0; i != 2; ++i)
        w.thread([p] {
          std::uint32_t const v = p->x.load(seq_cst);
          p->x.store(v + 1, seq_cst);
        });
      w.at_end([&found, p] { found |= p->x.load(relaxed) == 1; });
    });
    EXPECT_TRUE(r.is_complete);
    return found;
  };
  EXPECT_FALSE(lost(0));
  EXPECT_TRUE(lost(1));
}

} // namespace
