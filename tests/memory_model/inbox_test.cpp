// What a thread posts to itself (driver/queues.hpp, driver/shared/work_slot.hpp): it takes the only item
// without the lock under which others take some. In the executions that the memory model allows, each item is
// taken once, in the order in which they were posted if one thread takes them, no link is a data race, and
// a thread that sees nothing there sees what was counted before.

#include "driver/queues.hpp"
#include "memory_model/sound.hpp"

#include <array>
#include <functional>
#include <memory>
#include <mutex>

namespace {

using namespace memory_model;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto seq_cst = std::memory_order_seq_cst;

// Its link is a data race if two threads use it at once.
struct item {
  item* next = nullptr;
  plain<int> link_used{0};
  plain<int> taken{0};
  int number = 0;
};
struct item_link {
  static item*& next(item& i) noexcept {
    i.link_used.write(1);
    return i.next;
  }
};

// As work_slot, with what is posted only.
struct slot {
  explicit slot(world& w) : in(w) {
    for (int n = 0; item & i : items) i.number = n++;
  }
  void lock() {
    for (bool no = false; !held.compare_exchange_strong(no, true, std::memory_order_acquire); no = false)
      in.spin();
  }
  void unlock() { held.store(false, std::memory_order_release); }

  void collect() {
    if (box.empty()) return;
    std::uint32_t n = queued.load(relaxed);
    queued.store(n + 1, relaxed);
    for (item* i = box.take(); i != nullptr; ++n) {
      item* const next = i->next;
      queue.at(last.read()) = i;
      last.write(last.read() + 1);
      i = next;
    }
    queued.store(n, relaxed);
  }
  item* pop_first() {
    queued.store(queued.load(relaxed) - 1, relaxed);
    first.write(first.read() + 1);
    return queue.at(first.read() - 1);
  }
  void take(item& i) { i.taken.write(i.taken.read() + 1); }

  void post(int n) { box.push(items.at(static_cast<std::size_t>(n))); }
  // By the thread that posts. False: there is nothing.
  bool run_one(bool without_looking) {
    counted.store(true, relaxed);
    item* i = without_looking || queued.load(relaxed) == 0 ? box.take_only() : nullptr;
    if (i == nullptr) {
      std::lock_guard const lock(*this);
      collect();
      if (queued.load(relaxed) != 0) i = pop_first();
    }
    if (i == nullptr) return false;
    take(*i);
    if (i->number < newest) in.fail("something was run before what was posted earlier");
    newest = i->number;
    return true;
  }
  // Another thread: half of what there is, the larger one.
  void steal() {
    counted.store(true, relaxed);
    std::array<item*, 4> moved{};
    std::size_t n = 0;
    {
      std::lock_guard const lock(*this);
      collect();
      for (std::uint32_t const wanted = (queued.load(relaxed) + 1) / 2; n != wanted; ++n)
        moved.at(n) = pop_first();
    }
    while (n != 0) take(*moved.at(--n));
  }
  // Another thread: what it sees gone was counted.
  void look() {
    if (box.empty()) return; // not yet posted
    if (box.empty() && queued.load(seq_cst) == 0 && !counted.load(relaxed))
      in.fail("something is gone, and not counted");
  }

  world& in;
  unio::driver::inbox<item, item_link, atomic> box;
  atomic<bool> held{false};
  atomic<std::uint32_t> queued{0};
  atomic<bool> counted{false};
  std::array<item*, 4> queue{};
  plain<std::size_t> first{0}, last{0};
  std::array<item, 4> items;
  int newest = -1;
};

using other = std::function<void(slot&)>;

report check(std::initializer_list<other> others, int preemptions, void (*mutant)(operation&) = nullptr,
             bool without_looking = false) {
  return explore({.preemptions = preemptions, .mutant = mutant}, [&](world& w) {
    auto const s = std::make_shared<slot>(w);
    w.name(&s->held, "lock");
    w.name(&s->queued, "queued");
    w.name(&s->counted, "counted");
    w.name_rest("head");
    w.thread([=] {
      s->post(0);
      s->run_one(without_looking);
      s->post(1);
      s->post(2);
      s->post(3);
      while (s->run_one(without_looking)) continue;
    });
    for (other const& o : others) w.thread([=] { o(*s); });
    w.at_end([s, &w] {
      for (item& i : s->items)
        if (i.taken.read() != 1) w.fail("something was not taken once");
    });
  });
}

constexpr auto steals = [](slot& s) { s.steal(); };
constexpr auto looks = [](slot& s) { s.look(); };

TEST(inbox_of_a_thread, gives_each_item_once_while_another_thread_takes_some) {
  expect_sound(check({steals}, 3));
  expect_sound(check({steals, steals}, 2));
}

TEST(inbox_of_a_thread, shows_what_is_gone_as_counted) {
  expect_sound(check({looks}, 3));
  expect_sound(check({looks, steals}, 2));
}

void taken_relaxed(operation& o) {
  if (o.what == action::compare_exchange && o.order == std::memory_order_acq_rel) o.order = relaxed;
}

TEST(inbox_of_a_thread, needs_the_order_of_what_takes_the_only_item) {
  EXPECT_NE(check({looks}, 3, taken_relaxed).error, "");
}

TEST(inbox_of_a_thread, needs_the_look_at_what_is_queued) {
  EXPECT_NE(check({steals}, 3, nullptr, true).error, "");
}

} // namespace
