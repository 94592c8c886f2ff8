// The gate at which the threads of one multiplexer sleep (src/driver/shared/wake_gate.hpp): in the executions
// that the memory model allows, what is posted is taken, though a thread that takes something may do nothing
// else for ever.

#include "driver/shared/wake_gate.hpp"
#include "memory_model/sound.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace {

using namespace memory_model;

constexpr auto seq_cst = std::memory_order_seq_cst;

using gate = unio::driver::wake_gate<atomic>;

struct place {
  gate::sleeper sleeper;
  atomic<std::uint32_t> bell{0};
};

struct pool {
  gate at;
  std::array<place, 2> places;
  atomic<std::uint32_t> queued{0};

  [[nodiscard]] bool has_work() { return queued.load(seq_cst) != 0; }
  bool take() {
    std::uint32_t n = queued.load(seq_cst);
    while (n != 0)
      if (queued.compare_exchange_weak(n, n - 1, seq_cst)) return true;
    return false;
  }
  void call_one() {
    at.call_one(
        places, [](place& p) -> gate::sleeper& { return p.sleeper; },
        [](place& p) {
          p.bell.fetch_add(1, seq_cst);
          wake_sleepers(p.bell, 1);
        },
        [this] { return has_work(); });
  }
  void post() {
    queued.fetch_add(1, seq_cst);
    call_one();
  }
  // Takes `n`, and then nothing any more.
  void work(place& here, int n) {
    for (int taken = 0; taken < n;) {
      if (take()) {
        ++taken;
        if (has_work()) call_one();
        continue;
      }
      std::uint32_t const seen = here.bell.load(seq_cst);
      at.lie_down(here.sleeper);
      if (!has_work()) sleep_on(here.bell, seen, 1'000'000, false);
      if (!at.rise(here.sleeper)) continue;
      if (take()) ++taken;
      at.answered();
      if (has_work()) call_one();
    }
  }
};

// `posters` post one each; `workers` take all of it in equal parts.
report check(int posters, int workers, int preemptions = -1, void (*mutant)(operation&) = nullptr) {
  return explore({.preemptions = preemptions, .mutant = mutant}, [=](world& w) {
    auto const p = std::make_shared<pool>();
    w.name(&p->at, "idle");
    w.name(&p->queued, "queued");
    w.name_rest("bell or asleep");
    for (int i = 0; i != posters; ++i) w.thread([p] { p->post(); });
    for (int i = 0; i != workers; ++i)
      w.thread([=] { p->work(p->places[static_cast<std::size_t>(i)], posters / workers); });
    w.at_end([=, &w] {
      if (p->queued.load(seq_cst) != 0) w.fail("something was left");
    });
  });
}

// Cut short are those in which a poster goes round while a sleeper that is awake has not said so yet.
void expect_no_error(report const& r) { expect_sound(r, {.is_complete = false, .is_ordered = true}); }

TEST(wake_gate, loses_no_wake_up_of_one_sleeper) {
  expect_no_error(check(1, 1));
  expect_no_error(check(2, 1));
}

TEST(wake_gate, calls_a_second_sleeper_for_what_the_first_leaves) { expect_no_error(check(2, 2, 2)); }

TEST(wake_gate, would_lose_wake_ups_if_the_poster_looked_with_a_weaker_order) {
  EXPECT_NE(check(1, 1, -1,
                  [](operation& o) {
                    if (o.what == action::load && std::string_view(o.name) == "idle")
                      o.order = std::memory_order_acquire;
                  })
                .error,
            "");
}

TEST(wake_gate, would_lose_wake_ups_if_the_sleeper_looked_with_a_weaker_order) {
  EXPECT_NE(check(1, 1, -1,
                  [](operation& o) {
                    if (o.what == action::load && std::string_view(o.name) == "queued")
                      o.order = std::memory_order_acquire;
                  })
                .error,
            "");
}

} // namespace
