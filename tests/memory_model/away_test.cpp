// A coroutine that waits for something elsewhere (unio/detail/away.hpp): in the executions that the memory
// model allows, exactly one thread goes on with it, and that thread sees what was done elsewhere.

#include "memory_model/sound.hpp"

#include <unio/detail/away.hpp>

#include <memory>
#include <string_view>

namespace {

using namespace memory_model;

using state = unio::detail::away_state<atomic>;

struct trip {
  state place;
  atomic<std::uint32_t> begun{0};  // the work elsewhere may start
  atomic<std::uint32_t> queued{0}; // the resumption, on the coroutine's executor
  atomic<std::uint32_t> woken{0};  // the destructor
  plain<int> value;                // what the work elsewhere obtains
  plain<int> frame;                // the coroutine's
  int gone_on = 0;                 // how many times; only one thread runs at a time

  void go_on(world& w) {
    frame.write(1);
    if (value.read() != 7) w.fail("the value is missing");
    if (++gone_on != 1) w.fail("it went on twice");
  }
  void await_flag(world& w, atomic<std::uint32_t>& flag) {
    while (flag.load(std::memory_order_acquire) == 0) w.spin();
  }
};

enum class how { returns, at_once, is_destroyed };

report check(how what, void (*mutant)(operation&) = nullptr) {
  return explore({.mutant = mutant}, [=](world& w) {
    auto const t = std::make_shared<trip>();
    w.name(&t->place, "place");
    w.name_rest("flag");
    w.thread([=, &w] { // the coroutine's
      t->frame.write(0);
      if (what == how::at_once) t->place.leave_at_once();
      if (what != how::at_once) t->place.leave();
      t->begun.store(1, std::memory_order_release);
      if (what == how::at_once) return;
      if (!t->place.has_left()) return t->go_on(w);
      if (what != how::is_destroyed) return;
      t->await_flag(w, t->place.call_back() ? t->woken : t->queued);
      t->go_on(w);
    });
    w.thread([=, &w] { // elsewhere
      t->await_flag(w, t->begun);
      t->value.write(7);
      switch (t->place.arrive()) {
        case state::next::nothing:
          break;
        case state::next::resume:
          t->queued.store(1, std::memory_order_release);
          break;
        case state::next::wake:
          t->woken.store(1, std::memory_order_release);
          break;
      }
    });
    if (what != how::is_destroyed)
      w.thread([=, &w] { // the executor's
        if (t->queued.load(std::memory_order_acquire) != 0) t->go_on(w);
      });
    w.at_end([=, &w] {
      bool const queued = t->queued.load(std::memory_order_relaxed) != 0;
      if (t->gone_on == 0 && !queued) w.fail("it was forgotten");
      if (what == how::at_once && !queued) w.fail("it was resumed by nobody");
    });
  });
}

TEST(away, goes_on_once_and_sees_what_was_done_elsewhere) {
  expect_sound(check(how::returns));
  expect_sound(check(how::at_once));
}

TEST(away, is_destroyed_when_what_it_waits_for_has_ended) { expect_sound(check(how::is_destroyed)); }

// Of all its changes of place: without a release, and without an acquire.
template <std::memory_order Order> void weaker(operation& o) {
  if (o.what == action::compare_exchange && std::string_view(o.name) == "place") o.order = Order;
}

TEST(away, would_miss_what_was_done_elsewhere_with_weaker_orders) {
  for (how const what : {how::returns, how::is_destroyed}) {
    EXPECT_NE(check(what, weaker<std::memory_order_acquire>).error, "");
    EXPECT_NE(check(what, weaker<std::memory_order_release>).error, "");
  }
}

} // namespace
