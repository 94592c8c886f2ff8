// What a thread has spawned (driver/shared/newest_first.hpp), with the lock under which it is taken: in the
// executions that the memory model allows, everything is taken once, the links are no data race, and a thread
// that sees nothing there sees where it went.

#include "driver/shared/newest_first.hpp"

#include "memory_model/sound.hpp"

#include <array>
#include <functional>
#include <memory>
#include <mutex>

namespace {

using namespace memory_model;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto seq_cst = std::memory_order_seq_cst;

// A pointer that threads share, as a number.
template <class P> class pointer {
  using number = std::uint64_t;
  using order = std::memory_order;

 public:
  pointer(P p = nullptr) : at_(number_of(p)) {}
  P load(order o) const { return pointer_of(at_.load(o)); }
  void store(P p, order o) { at_.store(number_of(p), o); }
  bool compare_exchange_weak(P& expected, P desired, order o, order) {
    return compare_exchange_strong(expected, desired, o);
  }
  bool compare_exchange_strong(P& expected, P desired, order o) {
    number e = number_of(expected);
    bool const done = at_.compare_exchange_strong(e, number_of(desired), o);
    expected = pointer_of(e);
    return done;
  }

 private:
  static number number_of(P p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }
  static P pointer_of(number n) noexcept { return reinterpret_cast<P>(static_cast<std::uintptr_t>(n)); }
  atomic<number> at_;
};

struct item {
  plain<item*> next{nullptr};
  plain<int> taken{0};
};

struct link {
  struct reference {
    item& of;
    operator item*() const { return of.next.read(); }
    reference const& operator=(item* p) const {
      of.next.write(p);
      return *this;
    }
    reference const& operator=(reference const& other) const { return *this = static_cast<item*>(other); }
  };
  static reference next(item& i) noexcept { return {i}; }
};

using stack = unio::driver::newest_first<item, link, pointer>;

struct shared {
  explicit shared(world& w) : in(w) {}
  void lock() {
    for (bool no = false; !held.compare_exchange_strong(no, true, std::memory_order_acquire); no = false)
      in.spin();
  }
  void unlock() { held.store(false, std::memory_order_release); }

  void take(item& i) { i.taken.write(i.taken.read() + 1); }
  void take_all(item* i) {
    while (i != nullptr) {
      item* const next = i->next.read();
      take(*i);
      i = next;
    }
  }
  // By the thread that pushes. False: there is nothing.
  bool take_newest() {
    if (!spawned.may_have_one()) return false;
    std::lock_guard const lock(*this);
    item* const newest = spawned.pop();
    if (newest != nullptr) take(*newest);
    return newest != nullptr;
  }
  void steal() {
    item* oldest = nullptr;
    {
      std::lock_guard const lock(*this);
      oldest = spawned.take_oldest([](int n) { return (n + 1) / 2; });
    }
    take_all(oldest);
  }
  void withdraw(item& i) {
    bool found = false;
    {
      std::lock_guard const lock(*this);
      found = spawned.remove(i);
    }
    if (found) take(i);
  }
  // As work_slot::age().
  void age() {
    std::lock_guard const lock(*this);
    queued.store(1, relaxed);
    item* const oldest = spawned.take_oldest([](int n) { return n == 0 ? 0 : 1; });
    queued.store(oldest != nullptr ? 1 : 0, relaxed);
  }

  world& in;
  stack spawned;
  atomic<bool> held{false};
  atomic<std::uint32_t> queued{0};
  std::array<item, 3> items;
};

using program = std::function<void(world&, std::shared_ptr<shared> const&)>;

report check(program const& threads, int preemptions, void (*mutant)(operation&) = nullptr,
             bool takes_all = true) {
  return explore({.preemptions = preemptions, .mutant = mutant}, [&](world& w) {
    auto const s = std::make_shared<shared>(w);
    w.name(&s->held, "lock");
    w.name(&s->queued, "queued");
    w.name_rest("head");
    threads(w, s);
    w.at_end([s, &w, takes_all] {
      if (!takes_all) return;
      for (item& i : s->items)
        if (i.taken.read() != 1) w.fail("something was not taken once");
    });
  });
}

// One thread spawns three and takes what the others leave.
program with(std::function<void(shared&)> other, std::function<void(shared&)> third = nullptr) {
  return [=](world& w, std::shared_ptr<shared> const& s) {
    w.thread([s] {
      s->spawned.push(s->items[0]);
      s->spawned.push(s->items[1]);
      s->take_newest();
      s->spawned.push(s->items[2]);
      while (s->take_newest()) continue;
    });
    w.thread([=] { other(*s); });
    if (third != nullptr) w.thread([=] { third(*s); });
  };
}

void expect_no_error(report const& r) { expect_sound(r, {.is_ordered = true}); }

TEST(newest_first, gives_each_item_to_its_thread_or_to_a_thief) {
  expect_no_error(check(with([](shared& s) {
                          s.steal();
                          s.steal();
                        }),
                        4));
}

TEST(newest_first, gives_each_item_to_one_of_two_thieves) {
  expect_no_error(check(with([](shared& s) { s.steal(); }, [](shared& s) { s.steal(); }), 2));
}

TEST(newest_first, gives_an_item_that_is_withdrawn_while_it_is_stolen_to_one_of_them) {
  for (std::size_t i = 0; i != 3; ++i)
    expect_no_error(check(with([=](shared& s) { s.withdraw(s.items[i]); }, [](shared& s) { s.steal(); }), 2));
}

program ages_before_another_looks() {
  return [](world& w, std::shared_ptr<shared> const& s) {
    w.thread([s] {
      s->spawned.push(s->items[0]);
      s->age();
    });
    w.thread([s, &w] {
      if (s->spawned.empty()) return; // it has come
      if (s->spawned.empty() && s->queued.load(seq_cst) == 0) w.fail("it is nowhere");
    });
  };
}

TEST(newest_first, has_nothing_only_where_what_it_had_is_seen_elsewhere) {
  expect_no_error(check(ages_before_another_looks(), -1, nullptr, false));
}

TEST(newest_first, would_lose_sight_of_what_is_taken_if_it_was_taken_with_a_weaker_order) {
  EXPECT_NE(check(
                ages_before_another_looks(), -1,
                [](operation& o) {
                  if (o.what == action::compare_exchange && o.order == std::memory_order_acq_rel)
                    o.order = std::memory_order_acquire;
                },
                false)
                .error,
            "");
}

TEST(newest_first, would_have_a_data_race_if_it_was_pushed_with_a_weaker_order) {
  EXPECT_NE(check(with([](shared& s) { s.steal(); }), 4,
                  [](operation& o) {
                    if (o.what == action::compare_exchange && o.order == seq_cst) o.order = relaxed;
                  })
                .error,
            "");
}

} // namespace
