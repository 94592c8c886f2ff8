// What is pending, as each thread counts it (src/driver/shared/tally.hpp): in the executions that the memory
// model allows, a thread that says that nothing is pending sees that all has ended, and one that sleeps is
// woken by the last.

#include "driver/shared/tally.hpp"

#include "memory_model/sound.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace {

using namespace memory_model;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto seq_cst = std::memory_order_seq_cst;

using counts = unio::driver::tally<atomic>;

enum class reading : std::uint8_t { twice, once, begun_first };

struct crew {
  std::array<counts, 3> of;
  atomic<std::uint32_t> sleepers{0};
  atomic<std::uint32_t> bell{0};
  std::array<atomic<std::uint32_t>, 3> given; // to that thread: an operation that another one has begun
  std::array<atomic<std::uint32_t>, 3> begun; // by that thread
  atomic<std::uint32_t> running{0};           // what is pending runs

  [[nodiscard]] std::uint64_t pending(reading how) const {
    auto const each = [this](auto f) {
      for (counts const& c : of) f(c);
    };
    if (how == reading::begun_first) {
      std::uint64_t const begun_before = counts::all_begun(each);
      return begun_before - counts::all_ended(each);
    }
    if (how == reading::twice) (void)counts::all_ended(each);
    std::uint64_t const ended = counts::all_ended(each);
    return counts::all_begun(each) - ended;
  }
  void name(world& w) {
    w.name(&sleepers, "sleepers");
    w.name(&bell, "bell");
    w.name(&running, "running");
    for (atomic<std::uint32_t>& f : given) w.name(&f, "flag");
    for (atomic<std::uint32_t>& f : begun) w.name(&f, "flag");
    w.name_rest("count");
  }
  void await(world& w, atomic<std::uint32_t>& flag) {
    while (flag.load(acquire) == 0) w.spin();
  }
  void end_all(std::size_t by, std::uint64_t n, reading how) {
    of[by].end_all(n);
    if (sleepers.load(seq_cst) == 0 || pending(how) != 0) return;
    bell.fetch_add(1, seq_cst);
    wake_sleepers(bell, 1);
  }
  // Until nothing is pending.
  void sleep(reading how) {
    for (;;) {
      std::uint32_t const seen = bell.load(seq_cst);
      sleepers.fetch_add(1, seq_cst);
      bool const done = pending(how) == 0;
      if (!done) sleep_on(bell, seen, 1'000'000, false);
      sleepers.fetch_add(~0U, seq_cst);
      if (done) return;
    }
  }
};

enum class program : std::uint8_t {
  two_end,    // each thread ends one that it has begun
  handed_on,  // one thread ends one, and hands the other to the second
  begins_more // what is handed on begins another, on the thread that ends it
};

template <action What, std::memory_order Order> void weaken(operation& o) {
  if (o.what == What && std::string_view(o.name) == "count" && o.order != relaxed) o.order = Order;
}

// A thread begins to look when all have begun.
report check(program what, bool sleeps, reading how = reading::twice, void (*mutant)(operation&) = nullptr) {
  return explore({.preemptions = 3, .mutant = mutant}, [=](world& w) {
    auto const c = std::make_shared<crew>();
    c->name(w);
    w.thread([=, &w] {
      for (atomic<std::uint32_t>& b : c->begun)
        if (&b == c->begun.data() || (what == program::two_end && &b == &c->begun[1])) c->await(w, b);
      if (sleeps) {
        c->sleep(how);
      } else if (c->pending(how) != 0) {
        return;
      }
      if (c->running.load(relaxed) != 0) w.fail("something is pending");
    });
    w.thread([=] {
      c->running.fetch_add(what == program::begins_more ? 1 : 2, relaxed);
      c->of[0].begin(what == program::handed_on ? 2 : 1);
      c->begun[0].store(1, release);
      if (what == program::begins_more) return c->given[1].store(1, release);
      c->running.fetch_add(~0U, relaxed);
      if (what == program::two_end) return c->end_all(0, 1, how);
      c->of[0].end(1);
      c->given[1].store(1, release);
    });
    w.thread([=, &w] {
      if (what == program::two_end) {
        c->of[1].begin(1);
        c->begun[1].store(1, release);
      } else {
        c->await(w, c->given[1]);
      }
      if (what == program::begins_more) {
        c->running.fetch_add(1, relaxed);
        c->of[1].begin(1);
        c->running.fetch_add(~0U, relaxed);
        c->of[1].end(1); // that of the first
      }
      c->running.fetch_add(~0U, relaxed);
      c->end_all(1, 1, how);
    });
  });
}

void expect_no_error(report const& r) { expect_sound(r, {.is_complete = false}); }

TEST(tally, wakes_a_sleeper_when_the_last_has_ended) {
  for (program const p : {program::two_end, program::handed_on, program::begins_more})
    expect_no_error(check(p, true));
}

TEST(tally, says_that_nothing_is_pending_only_when_all_has_ended) {
  for (program const p : {program::two_end, program::handed_on, program::begins_more})
    expect_no_error(check(p, false));
}

TEST(tally, would_be_too_small_if_what_has_begun_were_read_first) {
  EXPECT_NE(check(program::begins_more, false, reading::begun_first).error, "");
}

TEST(tally, would_lose_the_last_if_what_has_ended_were_read_once) {
  EXPECT_NE(check(program::handed_on, true, reading::once).error, "");
}

TEST(tally, would_be_too_small_if_an_end_were_not_released) {
  EXPECT_NE(check(program::begins_more, false, reading::twice, weaken<action::store, relaxed>).error, "");
}

TEST(tally, would_lose_the_last_if_the_thread_that_ends_it_had_a_weaker_order) {
  EXPECT_NE(check(program::two_end, true, reading::twice, weaken<action::exchange, std::memory_order_acq_rel>)
                .error,
            "");
}

TEST(tally, would_lose_the_last_if_it_were_looked_for_with_a_weaker_order) {
  EXPECT_NE(check(program::two_end, true, reading::twice, weaken<action::load, acquire>).error, "");
}

} // namespace
