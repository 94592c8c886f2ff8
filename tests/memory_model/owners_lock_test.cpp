// The lock of an engine that its thread takes all the time, and others hardly ever
// (src/driver/owners_lock.hpp): in the executions that the memory model allows, only one has it, and sees
// what was done under it before; also where the kernel's barriers cannot be had any more.

#include "driver/owners_lock.hpp"

#include "memory_model/sound.hpp"

#include <memory>
#include <string_view>

namespace {

using namespace memory_model;

constexpr auto seq_cst = std::memory_order_seq_cst;

// What membarrier(2) comes to: each side's fence before the other's, or after it.
struct fences {
  template <class T> using atomic = memory_model::atomic<T>;
  static inline atomic<std::uint32_t>* both = nullptr;
  static inline int heavy_left = 0;
  static inline world* here = nullptr;
  static void light() { both->fetch_add(0, seq_cst); }
  static bool heavy() {
    if (heavy_left-- <= 0) return false;
    both->fetch_add(0, seq_cst);
    return true;
  }
  static void wait(unsigned) { here->spin(); }
};

struct guarded {
  explicit guarded(bool has_fences) : lock(has_fences) {}
  unio::driver::owners_lock<fences> lock;
  atomic<std::uint32_t> both{0};
  plain<int> data;
};

// `heavy`: how many heavy fences there are, or none from the beginning.
report check(int heavy, int takers, void (*mutant)(operation&) = nullptr) {
  int const preemptions = takers == 1 ? -1 : 3; // of three threads there are millions otherwise
  return explore({.preemptions = preemptions, .mutant = mutant}, [=](world& w) {
    auto const g = std::make_shared<guarded>(heavy > 0);
    fences::both = &g->both;
    fences::heavy_left = heavy;
    fences::here = &w;
    w.name(&g->both, "fence");
    w.name_rest("lock");
    w.thread([g] {
      for (int i = 0; i != 2; ++i) {
        g->lock.lock();
        g->data.write(i);
        g->lock.unlock();
      }
    });
    for (int i = 0; i != takers; ++i)
      w.thread([g] {
        if (!g->lock.try_take()) return;
        g->data.write(7);
        g->lock.give_back();
      });
  });
}

TEST(owners_lock, lets_in_one_thread_at_a_time) {
  expect_sound(check(2, 1));
  expect_sound(check(2, 2));
}

TEST(owners_lock, lets_in_one_thread_at_a_time_without_the_kernels_barriers) {
  expect_sound(check(0, 1));
  expect_sound(check(0, 2));
}

TEST(owners_lock, lets_in_one_thread_at_a_time_when_the_kernels_barriers_go) { expect_sound(check(1, 2)); }

template <action What, std::memory_order Order> void weaken(operation& o) {
  if (o.what == What && std::string_view(o.name) == "lock" && o.order != std::memory_order_relaxed)
    o.order = Order;
}

TEST(owners_lock, would_let_in_two_with_weaker_orders) {
  EXPECT_NE(check(0, 1, weaken<action::exchange, std::memory_order_acq_rel>).error, "");
  EXPECT_NE(check(0, 1, weaken<action::load, std::memory_order_acquire>).error, "");
  EXPECT_NE(check(0, 1, weaken<action::store, std::memory_order_relaxed>).error, "");
}

} // namespace
