// The interruptions of a foreign_reactor (src/driver/foreign/interruptions.hpp): in the executions that the
// memory model allows, the thread that runs it finds what it was interrupted for.

#include "driver/foreign/interruptions.hpp"

#include "memory_model/sound.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace {

using namespace memory_model;

struct interrupted_loop {
  static constexpr std::uint32_t away = 0, asleep = 1;

  unio::driver::interruptions<atomic> said;
  atomic<std::uint32_t> runner{away};
  atomic<std::uint32_t> doorbell{0};
  std::array<atomic<std::uint32_t>, 2> to_do{};

  void give(std::size_t i) {
    to_do[i].store(1, std::memory_order_relaxed);
    said.add();
    if (runner.load(std::memory_order_seq_cst) != asleep) return;
    doorbell.fetch_add(1, std::memory_order_seq_cst);
    wake_sleepers(doorbell, 1);
  }
  void run(std::size_t n) {
    std::uint32_t rung = 0; // each ring is an edge, which stays until it is reported
    for (std::size_t found = 0; found != n;) {
      found = 0;
      for (auto& t : to_do) found += t.load(std::memory_order_relaxed);
      if (found == n) return;
      runner.store(asleep, std::memory_order_seq_cst);
      if (!said.any()) {
        sleep_on(doorbell, rung, 1'000'000, false);
        rung = doorbell.load(std::memory_order_relaxed);
      }
      runner.store(away, std::memory_order_release);
      said.see_all();
    }
  }
};

report check_interruptions(std::size_t n, void (*mutant)(operation&) = nullptr) {
  return explore({.preemptions = n == 1 ? -1 : 3, .mutant = mutant}, [=](world& w) {
    auto const l = std::make_shared<interrupted_loop>();
    w.name(&l->said, "count");
    w.name(&l->runner, "runner");
    w.name_rest("to do");
    for (std::size_t i = 0; i != n; ++i) w.thread([=] { l->give(i); });
    w.thread([=] { l->run(n); });
  });
}

TEST(interruptions, are_followed_by_a_look) {
  expect_sound(check_interruptions(1), {.is_complete = false});
  expect_sound(check_interruptions(2), {.is_complete = false});
}

TEST(interruptions, would_be_lost_if_they_were_seen_with_a_weaker_order) {
  EXPECT_NE(check_interruptions(1,
                                [](operation& o) {
                                  if (o.order == std::memory_order_acquire)
                                    o.order = std::memory_order_relaxed;
                                })
                .error,
            "");
}

TEST(interruptions, would_be_lost_if_either_side_looked_with_a_weaker_order) {
  for (std::string_view const name : {"count", "runner"}) {
    static std::string_view weaker;
    weaker = name;
    EXPECT_NE(check_interruptions(1,
                                  [](operation& o) {
                                    if (o.what == action::load && o.name == weaker)
                                      o.order = std::memory_order_acquire;
                                  })
                  .error,
              "")
        << name;
  }
}

} // namespace
