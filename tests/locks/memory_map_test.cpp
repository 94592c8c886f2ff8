// memory_map: which files it accepts, its users, deaths in the map, and users that cannot see it. What all
// mutexes have in common is in shared_fs_mutex_test.cpp.

#include "locks/lock_file_fixture.hpp"
#include "locks/map_layout.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <unio/locks/memory_map.hpp>

#include <grp.h>

namespace {

using namespace test;
using namespace unio::fs;
namespace layout = unio::fs::map_layout;

constexpr entity a(7);
constexpr entity b(8);

std::size_t slot_of(entity e) { return unio::fs::fibonacci_hash::of(e.value) % 4096; }
// The n-th of those that have the slot of `a`: 0 is `a` itself.
entity in_slot_of_a(unsigned n) {
  std::uint64_t value = a.value;
  while (n != 0)
    if (slot_of(entity(++value)) == slot_of(a)) --n;
  return entity(value);
}

class memory_map_ : public test::lock_file_fixture<memory_map<>> {
 protected:
  using lock_file_fixture::open;
  [[nodiscard]] memory_map<> open(map_visibility v) const { return memory_map<>::open(path, v).value(); }
  // A process that does `what` with the locked entity held, then says so and waits for the word to end.
  process holder(entity e, map_visibility v = map_visibility::automatic) const {
    return process([=, this](process::channel& with) {
      memory_map<> m = open(v);
      auto const held = m.lock(e).value();
      with.say(held.owner_died() ? 'd' : 'h');
      with.hear();
      return 0;
    });
  }
  [[nodiscard]] std::string good_map() const {
    (void)good();
    return directory.read(".lock.map");
  }
  // A map as users of before the last restart might have left it.
  template <class F> void change_map(F&& f) const {
    std::string text = good_map();
    f(text);
    directory.write(".lock.map", text);
  }
  std::string const map = directory / ".lock.map";

  static void put_notes(std::string& text, std::size_t slot, std::size_t offset, std::uint64_t value) {
    std::memcpy(text.data() + layout::notes_at(4096) + slot * sizeof(layout::map_notes) + offset, &value,
                sizeof value);
  }
  static void put(std::string& text, std::size_t slot, std::size_t offset, std::uint64_t value) {
    std::memcpy(text.data() + layout::slots_at + slot * sizeof(layout::map_slot) + offset, &value,
                sizeof value);
  }
};

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(memory_map_, makes_no_system_call_for_what_nobody_else_holds) {
  memory_map<> m = open();
  std::array const some{entity(1), entity(2), entity(3).shared()};
  failing_calls calls;
  (void)m.lock(a).value();
  (void)m.lock(a.shared()).value();
  (void)m.lock(some).value();
  (void)m.try_lock(a).value();
  EXPECT_EQ(calls.count_all(), 0);
}

TEST_F(memory_map_, is_the_same_by_its_own_type_and_by_the_base) {
  memory_map<> m = open();
  unio::fs::shared_fs_mutex& base = m;
  auto held = m.lock(a).value();
  EXPECT_EQ(held.mutex(), &base);
  EXPECT_EQ(base.try_lock(a).error(), condition::would_block);
  EXPECT_EQ(m.try_lock(std::array{b, a}).error(), condition::would_block);
  held = base.lock(b).value();
  EXPECT_EQ(m.try_lock(b).error(), condition::would_block);
  EXPECT_TRUE(m.try_lock(a).has_value());
}

TEST_F(memory_map_, locks_all_of_what_falls_on_one_slot_and_what_comes_after_it) {
  using small = memory_map<unio::fs::fibonacci_hash, 8>;
  small m = small::open(path).value();
  small other = small::open(path).value();
  std::vector<entity> many; // several for each slot
  for (std::uint64_t i = 0; i != 12; ++i) many.emplace_back(i);
  auto const held = m.lock(many).value();
  for (entity const e : many) EXPECT_EQ(other.try_lock(e).error(), condition::would_block) << e.value;
}

TEST_F(memory_map_, excludes_threads_that_use_one_map) {
  memory_map<> m = open();
  long counter = 0; // guarded by the lock alone
  test::threads all(3, [&](int t) {
    for (int i = 0; i != 3000; ++i) {
      if (i % 4 == t) {
        auto const held = m.lock(a.shared()).value();
        EXPECT_GE(counter, 0);
      } else {
        auto const held = i % 2 == 0 ? m.lock(a).value() : m.lock(std::array{a, b}).value();
        ++counter;
      }
    }
  });
  all.join();
  EXPECT_EQ(counter, 3 * 3000 - 3 * 750);
}

// ── users ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(memory_map_, has_320_users_and_no_more) {
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit const more{.rlim_cur = 2000, .rlim_max = std::max<rlim_t>(limit.rlim_max, 2000)};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) GTEST_SKIP() << "may not have 2000 descriptors";
  {
    std::vector<memory_map<>> all;
    for (std::size_t i = 0; i != memory_map<>::most_users; ++i) all.push_back(open());
    EXPECT_EQ(opening("lock"), error::too_many_users);
    {
      auto const held = all.back().lock(a.shared()).value(); // the last bit of the last word
      EXPECT_EQ(all.front().try_lock(a).error(), condition::would_block);
    }
    all.pop_back();
    EXPECT_EQ(opening("lock"), std::error_code());
  }
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(memory_map_, lets_go_of_what_was_released_when_its_user_has_closed_it) {
  memory_map<> other = open();
  {
    memory_map<> m = open();
    m.lock(a).value().release();
    EXPECT_EQ(other.try_lock(a).error(), condition::would_block);
  }
  auto const held = other.try_lock(a);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_TRUE(held->owner_died());
}

// ── deaths ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(memory_map_, tells_of_a_death_that_nobody_saw_when_it_is_opened_anew) {
  {
    process dead = holder(a);
    dead.hear();
    dead.kill();
  }
  memory_map<> m = open();
  EXPECT_TRUE(m.try_lock(a).value().owner_died());
  EXPECT_FALSE(m.try_lock(a).value().owner_died());
  EXPECT_FALSE(m.try_lock(b).value().owner_died());
}

TEST_F(memory_map_, tells_the_next_owner_of_the_same_entity_and_nobody_else_of_its_slot) {
  entity const x = in_slot_of_a(1);
  memory_map<> m = open();
  for (bool const shared : {false, true}) {
    die_with({a});
    EXPECT_FALSE(m.lock(x, 20s).value().owner_died());
    EXPECT_FALSE(m.lock(x.shared(), 20s).value().owner_died());
    EXPECT_FALSE(m.lock(std::array{x, b}, 20s).value().owner_died());
    EXPECT_TRUE(m.lock(shared ? a.shared() : a, 20s).value().owner_died());
    EXPECT_FALSE(m.lock(a, 20s).value().owner_died());
    EXPECT_FALSE(m.lock(x, 20s).value().owner_died());
  }
}

TEST_F(memory_map_, tells_of_each_entity_that_a_dead_owner_had_in_one_slot) {
  std::vector<entity> const its{in_slot_of_a(0), in_slot_of_a(1), in_slot_of_a(2), b};
  die_with(its);
  memory_map<> m = open();
  EXPECT_FALSE(m.lock(in_slot_of_a(3)).value().owner_died());
  for (entity const e : its) EXPECT_TRUE(m.lock(e).value().owner_died()) << e.value;
  for (entity const e : its) EXPECT_FALSE(m.lock(e).value().owner_died()) << e.value;
}

TEST_F(memory_map_, tells_nobody_of_the_death_of_one_that_shared) {
  die_with({a.shared(), in_slot_of_a(1)}); // the slot was its own, not the entity
  memory_map<> m = open();
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_TRUE(m.lock(in_slot_of_a(1)).value().owner_died());
}

TEST_F(memory_map_, keeps_notes_of_four_deaths_in_a_slot_while_nobody_asks) {
  for (unsigned n = 0; n != 4; ++n) die_with({in_slot_of_a(n)});
  memory_map<> m = open();
  EXPECT_FALSE(m.lock(in_slot_of_a(4)).value().owner_died());
  for (unsigned n = 4; n-- != 0;) EXPECT_TRUE(m.lock(in_slot_of_a(n)).value().owner_died()) << n;
  die_with({a});
  EXPECT_TRUE(m.lock(a, 20s).value().owner_died()); // there is room again
}

TEST_F(memory_map_, tells_whoever_comes_first_of_a_death_that_it_has_no_room_for) {
  for (unsigned n = 0; n != 5; ++n) die_with({in_slot_of_a(n)});
  die_with({in_slot_of_a(5)}); // is reported, and reported again
  memory_map<> m = open();
  EXPECT_TRUE(m.lock(in_slot_of_a(6)).value().owner_died());
  EXPECT_FALSE(m.lock(in_slot_of_a(6)).value().owner_died());
  for (unsigned n = 0; n != 4; ++n) EXPECT_TRUE(m.lock(in_slot_of_a(n)).value().owner_died()) << n;
  EXPECT_FALSE(m.lock(in_slot_of_a(4)).value().owner_died());

  die_with({in_slot_of_a(0), in_slot_of_a(1), in_slot_of_a(2),
            in_slot_of_a(3)}); // more than its owner has room for
  EXPECT_TRUE(m.lock(in_slot_of_a(6), 20s).value().owner_died());
  EXPECT_FALSE(m.lock(in_slot_of_a(6)).value().owner_died());
}

TEST_F(memory_map_, tells_one_of_those_that_share_an_entity_and_the_next_owner_if_that_one_is_killed) {
  entity const x = in_slot_of_a(1);
  memory_map<> m = open();
  die_with({a, x});
  auto other = m.lock(x.shared(), 20s).value();
  EXPECT_TRUE(other.owner_died());
  process told = holder(a.shared());
  EXPECT_EQ(told.hear(), 'd');
  EXPECT_FALSE(m.lock(a.shared()).value().owner_died());
  EXPECT_FALSE(m.lock(x.shared()).value().owner_died());
  told.kill();
  other.unlock();
  EXPECT_FALSE(m.lock(x, 20s).value().owner_died());
  EXPECT_TRUE(m.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(m.lock(a).value().owner_died());
}

TEST_F(memory_map_, leaves_nothing_behind_in_a_slot_whose_deaths_were_told) {
  memory_map<> m = open();
  (void)m.lock(b).value();
  std::string const before = good_map();
  die_with({in_slot_of_a(0), in_slot_of_a(1)});
  (void)m.lock(std::array{in_slot_of_a(0).shared(), in_slot_of_a(1)}, 20s).value();
  (void)m.lock(a).value();
  std::string const after = good_map();
  std::size_t const notes = layout::notes_at(4096) + slot_of(a) * sizeof(layout::map_notes);
  for (std::size_t const at : {layout::slots_at + slot_of(a) * sizeof(layout::map_slot),
                               notes + offsetof(layout::map_notes, told_of)})
    EXPECT_EQ(after.substr(at, 16), before.substr(at, 16)) << at;
  EXPECT_EQ(after.substr(notes + 8, 56), before.substr(notes + 8, 56));
}

TEST_F(memory_map_, is_not_stuck_by_a_killed_sleeper) {
  memory_map<> m = open();
  auto held = m.lock(a).value();
  std::vector<process> sleepers;
  for (int i = 0; i != 3; ++i) {
    sleepers.push_back(process([this](process::channel& with) {
      memory_map<> own = open();
      with.say('w');
      return CHILD_MEETS(own.lock(a, 20s).has_value());
    }));
    sleepers.back().hear();
  }
  std::this_thread::sleep_for(20ms);
  sleepers[0].kill();
  held.unlock();
  EXPECT_EQ(sleepers[1].wait(), 0);
  EXPECT_EQ(sleepers[2].wait(), 0);
  EXPECT_FALSE(m.lock(a, 20s).value().owner_died());
}

TEST_F(memory_map_, is_not_kept_by_a_reservation_for_one_who_never_comes) {
  constexpr std::uint64_t reserved = 1u << 17;
  memory_map<> keeps_it_open = open();
  change_map([](std::string& text) { put(text, slot_of(a), offsetof(layout::map_slot, word), reserved); });
  EXPECT_TRUE(keeps_it_open.try_lock(a).has_value());
}

// Its clock may be hours ahead (time_namespaces(7)), so that what it reserved would be reserved for as long
// here.
TEST_F(memory_map_, is_not_kept_by_a_moment_of_another_time_namespace) {
  memory_map<> m = open();
  memory_map<> other = open();
  std::string const before = good_map();
  std::int64_t now = 0;
  for (std::int64_t const ahead :
       {std::int64_t{3'600'000'000'000}, std::int64_t{500'000'000}, std::int64_t{1} << 62}) {
    bool tried_in_time = false;
    for (int i = 0; i != 1'000 && !tried_in_time; ++i) { // a slow machine comes near to the moment itself
      now = unio::sys::kernel.steady_now();
      change_map([&](std::string& text) {
        text = before;
        put(text, slot_of(a), offsetof(layout::map_slot, word), layout::reserved_bit);
        put_notes(text, slot_of(a), offsetof(layout::map_notes, fair_at_ns),
                  static_cast<std::uint64_t>(now + ahead));
      });
      bool const exclusive = m.try_lock(a).has_value();
      bool const shared = m.try_lock(a.shared()).has_value();
      tried_in_time = unio::sys::kernel.steady_now() - now < 400'000'000;
      if (!tried_in_time) continue;
      EXPECT_TRUE(exclusive) << ahead;
      EXPECT_TRUE(shared) << ahead;
    }
    EXPECT_TRUE(tried_in_time);
  }
  // Nor is it never time to be fair: one that sleeps is let in although others come all the time.
  change_map([&](std::string& text) {
    put_notes(text, slot_of(a), offsetof(layout::map_notes, fair_at_ns),
              static_cast<std::uint64_t>(now) << 2);
  });
  auto held = m.lock(a).value();
  std::atomic<bool> tried = false;
  std::thread sleeper([&] {
    auto const its = other.lock(a, 20s);
    EXPECT_TRUE(its.has_value());
    while (!tried) std::this_thread::yield(); // so that it has not unlocked it before
  });
  while ((directory.read(".lock.map")[layout::slots_at + slot_of(a) * sizeof(layout::map_slot) + 2] & 1) == 0)
    std::this_thread::sleep_for(1ms); // until it waits
  std::this_thread::sleep_for(1ms);
  held.unlock();
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block) << "what is let go is not reserved";
  tried = true;
  sleeper.join();
}

TEST_F(memory_map_, does_not_wait_longer_than_the_deadline_for_a_dead_owner) {
  memory_map<> m = open();
  process dead = holder(a.shared());
  dead.hear();
  dead.kill();
  EXPECT_TRUE(m.lock(a, 1ns).has_value()); // looks at least once whether it lives
}

// ── users that do not see the map ──────────────────────────────────────────────────────────────────────────

constexpr auto afar = map_visibility::none;

TEST_F(memory_map_, changes_over_for_one_that_cannot_see_the_map_and_back_when_all_have_gone) {
  memory_map<> near = open();
  EXPECT_FALSE(near.is_degraded());
  {
    memory_map<> far = open(afar);
    EXPECT_TRUE(near.is_degraded());
    EXPECT_TRUE(far.is_degraded());
  }
  EXPECT_TRUE(near.is_degraded()); // until none is left
  near = memory_map<>::open(directory / "other").value();
  EXPECT_FALSE(open().is_degraded());
}

TEST_F(memory_map_, makes_as_many_calls_as_it_says_while_degraded) {
  memory_map<> near = open();
  memory_map<> far = open(afar);
  for (auto [m, for_each] : {std::pair(&near, 1), std::pair(&far, 4)}) {
    (void)m->lock(a).value(); // has a description from now on
    failing_calls calls;
    (void)m->lock(std::array{entity(1), entity(2).shared(), entity(3)}).value();
    EXPECT_EQ(calls.count_all(), 3 * for_each + 1);
  }
}

TEST_F(memory_map_, excludes_near_and_far_users_from_each_other) {
  memory_map<> near = open();
  memory_map<> other = open();
  memory_map<> far = open(afar);
  for (auto [one, two] : {std::pair(&near, &far), std::pair(&far, &near), std::pair(&near, &other)}) {
    {
      auto const held = one->lock(a).value();
      EXPECT_EQ(two->try_lock(a).error(), condition::would_block);
      EXPECT_EQ(two->try_lock(a.shared()).error(), condition::would_block);
      EXPECT_EQ(two->lock(a, 5ms).error(), condition::timed_out);
      EXPECT_TRUE(two->try_lock(b).has_value());
    }
    auto const held = one->lock(std::array{a.shared(), b}).value();
    EXPECT_TRUE(two->try_lock(a.shared()).has_value());
    EXPECT_EQ(two->try_lock(a).error(), condition::would_block);
    EXPECT_EQ(two->try_lock(b).error(), condition::would_block);
  }
}

TEST_F(memory_map_, waits_from_afar_for_who_locked_in_the_map_before) {
  memory_map<> near = open();
  for (entity const e : {a, a.shared()}) {
    memory_map<> fresh = memory_map<>::open(directory / (e.exclusive ? "x" : "s")).value();
    std::string const name = directory / (e.exclusive ? "x" : "s");
    auto held = fresh.lock(e).value();
    memory_map<> far = memory_map<>::open(name, afar).value();
    EXPECT_EQ(far.try_lock(a).error(), condition::would_block);
    process waits([&](process::channel& with) {
      memory_map<> own = memory_map<>::open(name).value(); // near, and too late for the map
      with.say('w');
      return CHILD_MEETS(own.lock(a, 20s).has_value());
    });
    waits.hear();
    held.unlock();
    EXPECT_EQ(waits.wait(), 0);
    EXPECT_TRUE(far.lock(a, 20s).has_value());
  }
}

TEST_F(memory_map_, makes_those_change_over_that_wait_in_the_map) {
  memory_map<> near = open();
  auto held = near.lock(a).value();
  process waits([this](process::channel& with) {
    memory_map<> own = open();
    with.say('w');
    auto const got = own.lock(a, 20s);
    with.say(got ? 'g' : 'e');
    with.hear();
    return 0;
  });
  waits.hear();
  std::this_thread::sleep_for(10ms);
  memory_map<> far = open(afar);
  held.unlock();
  EXPECT_EQ(waits.hear(), 'g');
  EXPECT_EQ(far.try_lock(a).error(), condition::would_block);
  waits.say('e');
  EXPECT_EQ(waits.wait(), 0);
  EXPECT_TRUE(far.lock(a, 20s).has_value());
}

TEST_F(memory_map_, sees_the_dead_from_afar_and_tells_the_next_that_sees_the_map) {
  memory_map<> near = open();
  process dead = holder(a);
  dead.hear();
  dead.kill();
  memory_map<> far = open(afar);
  EXPECT_TRUE(far.try_lock(a).value().owner_died());
  EXPECT_TRUE(near.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(near.lock(a).value().owner_died());
  EXPECT_FALSE(far.lock(a).value().owner_died());
}

TEST_F(memory_map_, tells_from_afar_of_a_death_that_others_have_found_already) {
  memory_map<> near = open();
  {
    process dead = holder(a);
    dead.hear();
    dead.kill();
  }
  memory_map<> another = open(); // has the number of the dead one, whose slots it recovers
  memory_map<> far = open(afar);
  EXPECT_TRUE(far.try_lock(a).value().owner_died());
  EXPECT_TRUE(far.try_lock(a.shared()).value().owner_died());
  EXPECT_TRUE(near.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(far.try_lock(a).value().owner_died());
}

TEST_F(memory_map_, tells_from_afar_of_the_death_of_one_that_was_told) {
  memory_map<> near = open();
  {
    process dead = holder(a);
    dead.hear();
    dead.kill();
  }
  process told = holder(a.shared());
  EXPECT_EQ(told.hear(), 'd');
  memory_map<> far = open(afar);
  EXPECT_FALSE(far.try_lock(a.shared()).value().owner_died());
  told.kill();
  EXPECT_TRUE(far.try_lock(a).value().owner_died());
  EXPECT_TRUE(far.try_lock(a.shared()).value().owner_died());
  EXPECT_TRUE(near.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(far.try_lock(a).value().owner_died());
}

TEST_F(memory_map_, tells_from_afar_of_the_same_entity_only) {
  entity const x = in_slot_of_a(1);
  memory_map<> near = open();
  process dead = holder(a);
  dead.hear();
  dead.kill();
  memory_map<> far = open(afar);
  for (int found = 0; found != 2; ++found) { // not by any yet, and by one that sees the map
    EXPECT_FALSE(far.try_lock(x).value().owner_died());
    EXPECT_TRUE(far.try_lock(a).value().owner_died());
    EXPECT_FALSE(near.lock(x, 20s).value().owner_died());
  }
  EXPECT_TRUE(near.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(far.try_lock(a).value().owner_died());
}

TEST_F(memory_map_, recovers_from_deaths_while_degraded) {
  memory_map<> near = open();
  memory_map<> far = open(afar);
  {
    process dead = holder(a); // near: noted in the map
    dead.hear();
    dead.kill();
  }
  EXPECT_TRUE(near.lock(a, 20s).value().owner_died());
  EXPECT_FALSE(near.lock(a, 20s).value().owner_died());
  {
    process dead = holder(a, afar); // none could know
    dead.hear();
    dead.kill();
  }
  EXPECT_FALSE(near.lock(a, 20s).value().owner_died());
  EXPECT_TRUE(far.lock(a, 20s).has_value());
}

TEST_F(memory_map_, does_not_take_the_dead_for_a_far_user) {
  {
    process dead = holder(a);
    dead.hear();
    dead.kill();
  }
  memory_map<> far = open(afar); // alone: has none of the dead one's marks
  EXPECT_TRUE(far.try_lock(a).has_value());
  memory_map<> near = open();
  EXPECT_TRUE(near.try_lock(a).value().owner_died());
}

// ── files ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(memory_map_, refuses_foreign_content_and_leaves_it_alone) {
  std::string const whole = good();
  expect_refused("x", error::not_a_lock_file);
  expect_refused(std::string(1000, 'x'), error::not_a_lock_file);
  expect_refused(std::string(100'000, '\0'), error::not_a_lock_file);
  std::string zeros(whole.size(), '\0');
  zeros.back() = 'x';
  expect_refused(zeros, error::not_a_lock_file);
  expect_refused(whole.substr(0, whole.size() - 1), error::not_a_lock_file);
  expect_refused(std::string("unio append\0\0\0\0\0", 16) + whole.substr(16), error::different_lock_file);
  std::string changed = whole;
  changed[offsetof(layout::map_header, users)] = 1;
  expect_refused(changed, error::damaged_lock_file);
  changed = whole;
  changed[offsetof(layout::map_header, version)] = 3;
  expect_refused(changed, error::newer_lock_file);
}

TEST_F(memory_map_, refuses_other_parameters) {
  (void)good();
  EXPECT_EQ((memory_map<unio::fs::fnv1a_hash>::open(path).error()), error::different_lock_file);
  EXPECT_EQ((memory_map<unio::fs::fibonacci_hash, 512>::open(path).error()), error::different_lock_file);
}

TEST_F(memory_map_, finishes_files_that_were_not_finished) {
  std::size_t const size = good_map().size();
  for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, size}) {
    std::filesystem::resize_file(path, 0);
    directory.write(".lock.map", std::string(n, '\0'));
    EXPECT_TRUE(open().lock(a).has_value());
    EXPECT_EQ(directory.read(".lock.map").size(), size);
  }
}

TEST_F(memory_map_, finishes_files_whose_headers_a_power_loss_has_taken) {
  std::string const whole = good();
  std::string text = good_map();
  std::memset(text.data(), 0, 4096);
  put(text, slot_of(a), 0, 1);
  directory.write(".lock.map", text);
  directory.write("lock", std::string(whole.size(), '\0'));
  memory_map<> m = open();
  EXPECT_TRUE(m.try_lock(a).has_value());
  directory.write("lock", std::string(whole.size(), '\0'));
  EXPECT_EQ(opening("lock"), error::damaged_lock_file); // it has users
}

TEST_F(memory_map_, makes_nothing_where_the_name_of_its_map_would_be_too_long) {
  EXPECT_EQ(opening(std::string(251, 'x')), system_error(ENAMETOOLONG));
  EXPECT_EQ(directory.count(), 0);
  EXPECT_EQ(opening(std::string(250, 'x')), std::error_code());
}

TEST_F(memory_map_, leaves_no_descriptor_open_where_opening_fails_in_a_child) {
  (void)open();
  process child([this](process::channel&) {
    int const before = ::dup(0);
    ::close(before);
    for (int i = 0; i != 3; ++i)
      CHILD_EXPECTS(opening(".") == std::errc::is_a_directory &&
                    opening("nowhere/lock") == std::errc::no_such_file_or_directory);
    std::filesystem::create_directory(directory / "directory");
    std::filesystem::create_directory(directory / ".new.map");
    for (int i = 0; i != 3; ++i)
      CHILD_EXPECTS(opening("directory") == std::errc::is_a_directory &&
                    opening("new") == std::errc::is_a_directory);
    int const after = ::dup(0);
    ::close(after);
    return CHILD_MEETS(before == after);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(memory_map_, makes_a_file_of_an_earlier_version_anew) {
  std::string earlier = good();
  earlier[offsetof(layout::map_header, version)] = 1;
  earlier.resize(12288 + 4096 * 64);
  directory.write("lock", earlier);
  memory_map<> m = open();
  EXPECT_TRUE(m.lock(a).has_value());
  EXPECT_EQ(open().lock(a).error(), std::error_code());
  directory.write("lock", earlier);
  EXPECT_EQ(opening("lock"), error::different_lock_file); // it has users
}

// ── what others do to its files ────────────────────────────────────────────────────────────────────────────

TEST_F(memory_map_, goes_on_when_its_file_is_cut_off_by_somebody_else) {
  memory_map<> m = open();
  {
    memory_map<> other = open();
    auto const held = m.lock(std::array{a, b}).value();
    std::filesystem::resize_file(path, 0); // : > lock
    EXPECT_EQ(other.try_lock(a).error(), condition::would_block);
    EXPECT_TRUE(other.lock(entity(9)).has_value());
    EXPECT_EQ(opening("lock"), error::damaged_lock_file); // it has users, and does not say what it is
  }
  EXPECT_TRUE(m.lock(a).has_value());
  m = memory_map<>::open(directory / "other").value(); // none is left
  EXPECT_TRUE(open().lock(a).has_value());
  EXPECT_FALSE(good().empty());
}

TEST_F(memory_map_, says_so_when_its_map_is_gone_while_it_is_in_use) {
  memory_map<> m = open();
  auto const held = m.lock(a).value();
  std::filesystem::remove(map);
  EXPECT_EQ(opening("lock"), error::damaged_lock_file); // never a second map
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
}

// As where one lock file lies in two directories, one of them a container's.
TEST_F(memory_map_, never_uses_another_map_than_those_that_have_the_lock_file_open) {
  std::filesystem::create_directory(directory / "elsewhere");
  std::string const elsewhere = directory / "elsewhere/lock";
  (void)open(); // leaves a map here
  std::filesystem::rename(path, elsewhere);
  {
    memory_map<> there = memory_map<>::open(elsewhere).value(); // and has another
    auto const held = there.lock(a).value();
    std::filesystem::rename(elsewhere, path);
    EXPECT_EQ(opening("lock"), error::damaged_lock_file);
    std::filesystem::rename(path, elsewhere);
    EXPECT_EQ(memory_map<>::open(elsewhere).value().try_lock(a).error(), condition::would_block);
  }
  std::filesystem::rename(elsewhere, path);
  memory_map<> here = open(); // alone: others follow
  EXPECT_TRUE(here.try_lock(a).has_value());
  EXPECT_TRUE(open().try_lock(a).has_value());
  std::filesystem::rename(path, elsewhere);
  EXPECT_EQ(opening("elsewhere/lock"), error::damaged_lock_file);
}

TEST_F(memory_map_, keeps_its_notes_when_the_device_has_another_number_after_a_restart) {
  die_with({a});
  change_map([](std::string& text) { text[offsetof(layout::map_header, device)] ^= 0x55; });
  EXPECT_TRUE(open().lock(a).value().owner_died());
  die_with({a});
  EXPECT_TRUE(open().lock(a).value().owner_died());
}

TEST_F(memory_map_, makes_no_map_beside_one_that_is_in_use) {
  memory_map<> m = open();
  std::filesystem::remove(map);
  EXPECT_EQ(opening("lock"), error::damaged_lock_file);
  EXPECT_FALSE(std::filesystem::exists(map));
}

TEST_F(memory_map_, fills_no_empty_map_that_another_may_be_about_to_fill) {
  expect_not_filled(".lock.map", a);
}

TEST_F(memory_map_, leaves_a_map_alone_that_is_that_of_a_file_which_was_removed) {
  memory_map<> m = open();
  auto const held = m.lock(a).value();
  std::filesystem::remove(path);
  directory.write("in its place", ""); // keeps the number of its inode
  memory_map<> anew = open();
  EXPECT_TRUE(anew.try_lock(a).has_value());
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
  EXPECT_TRUE(m.lock(b).has_value());
}

TEST_F(memory_map_, does_not_touch_a_file_of_somebody_else_where_its_map_should_be) {
  directory.write(".lock.map", "somebody's");
  EXPECT_EQ(opening("lock"), error::not_a_lock_file);
  EXPECT_EQ(directory.read(".lock.map"), "somebody's");
  std::string const begins_with_zeros = std::string(10'000, '\0') + "somebody's";
  directory.write(".lock.map", begins_with_zeros);
  EXPECT_EQ(opening("lock"), error::not_a_lock_file);
  EXPECT_TRUE(directory.read(".lock.map") == begins_with_zeros);
  std::filesystem::remove(map);
  (void)open();
  change_map([](std::string& text) { text[offsetof(layout::map_header, version)] = 3; });
  EXPECT_EQ(opening("lock"), error::newer_lock_file);
  EXPECT_EQ(directory.read(".lock.map")[offsetof(layout::map_header, version)], 3);
  std::filesystem::remove(map);
  std::filesystem::create_symlink("elsewhere", map);
  EXPECT_EQ(opening("lock"), system_error(ELOOP));
  EXPECT_FALSE(std::filesystem::exists(directory / "elsewhere"));
}

TEST_F(memory_map_, shares_its_map_with_those_that_the_lock_file_is_shared_with) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0770));
  ASSERT_EQ(::chown(directory.path().c_str(), 0, 65534), 0);
  directory.write("lock", "");
  ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
  std::filesystem::permissions(path, std::filesystem::perms(0660));
  for (uid_t const uid : {65533U, 65532U, 0U}) {
    process one([&](process::channel&) {
      CHILD_EXPECTS(uid == 0 || (::setresgid(65534, 65534, 65534) == 0 && ::setresuid(uid, uid, uid) == 0));
      unio::result<memory_map<>> m = memory_map<>::open(path);
      return CHILD_MEETS(m && m->lock(a));
    });
    EXPECT_EQ(one.wait(), 0) << uid;
  }
}

TEST_F(memory_map_, opens_its_map_later_to_those_that_its_lock_file_was_opened_to) {
  (void)open(); // 0600, as a process killed while it made the map might have left it
  std::filesystem::permissions(path, std::filesystem::perms(0660));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
  }
  (void)open();
  struct stat of_lock;
  struct stat of_map;
  ASSERT_EQ(::stat(path.c_str(), &of_lock), 0);
  ASSERT_EQ(::stat(map.c_str(), &of_map), 0);
  EXPECT_EQ(of_map.st_mode, of_lock.st_mode);
  EXPECT_EQ(of_map.st_gid, of_lock.st_gid);
}

TEST_F(memory_map_, opens_its_map_to_no_group_where_it_cannot_be_that_of_the_lock_file) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  directory.write("lock", "");
  for (std::string const& name : {path, directory.path()}) ASSERT_EQ(::chown(name.c_str(), 65533, 65534), 0);
  std::filesystem::permissions(path, std::filesystem::perms(0660));
  process no_member([&](process::channel&) {
    CHILD_EXPECTS(::setgroups(0, nullptr) == 0 && ::setresgid(65532, 65532, 65532) == 0 &&
                  ::setresuid(65533, 65533, 65533) == 0);
    return CHILD_MEETS(!opening("lock"));
  });
  EXPECT_EQ(no_member.wait(), 0);
  struct stat s;
  ASSERT_EQ(::stat(map.c_str(), &s), 0);
  EXPECT_EQ(s.st_gid, 65532U);
  EXPECT_EQ(s.st_mode & 07777, 0600U);
}

TEST_F(memory_map_, trusts_no_map_of_the_group_where_everybody_could_have_put_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  directory.write("lock", "");
  directory.write(".lock.map", "");
  ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chown(map.c_str(), 65533, 65534), 0);
  std::filesystem::permissions(path, std::filesystem::perms(0660));
  std::filesystem::permissions(map, std::filesystem::perms(0660));
  for (unsigned const mode : {0777U, 03777U}) {
    ASSERT_EQ(::chmod(directory.path().c_str(), mode), 0);
    EXPECT_EQ(opening("lock"), system_error(EPERM)) << mode;
  }
  ASSERT_EQ(::chmod(directory.path().c_str(), 0770), 0);
  EXPECT_EQ(opening("lock"), std::error_code());
}

TEST_F(memory_map_, takes_a_copy_for_no_lock_file_of_anybody) {
  memory_map<> m = open();
  auto const held = m.lock(a).value();
  std::filesystem::copy_file(path, directory / "copy");
  std::filesystem::copy_file(map, directory / ".copy.map");
  memory_map<> copy = memory_map<>::open(directory / "copy").value();
  auto const other = copy.try_lock(a);
  ASSERT_TRUE(other.has_value());
  EXPECT_FALSE(other->owner_died());
  EXPECT_EQ(open().try_lock(a).error(), condition::would_block);
}

TEST_F(memory_map_, is_not_led_astray_by_what_a_hostile_map_says) {
  change_map([](std::string& text) {
    for (std::size_t i = 0; i != 4096; ++i)
      for (std::size_t at = 0; at != sizeof(layout::map_slot); at += 8) put(text, i, at, ~std::uint64_t{0});
  });
  {
    memory_map<> m = open(); // alone: all of it is undone
    EXPECT_TRUE(m.try_lock(a).value().owner_died());
    EXPECT_FALSE(m.try_lock(a).value().owner_died());
    EXPECT_TRUE(m.try_lock(in_slot_of_a(1)).has_value());
    change_map([](std::string& text) { put(text, slot_of(b), 0, 5000); }); // no number of a user
    EXPECT_EQ(m.try_lock(b).error(), error::damaged_lock_file);
    EXPECT_EQ(m.lock(b, 20s).error(), error::damaged_lock_file);
    EXPECT_TRUE(m.try_lock(a).has_value());
  }
}

TEST_F(memory_map_, reports_each_failure_of_making_the_file_and_is_made_the_next_time) {
  auto const failing = [&]<auto Member>(int code) {
    std::filesystem::remove(path);
    std::filesystem::remove(map);
    {
      failing_calls calls;
      calls.fail<Member>(code);
      EXPECT_EQ(opening("lock"), system_error(code)) << std::strerror(code);
    }
    EXPECT_EQ(opening("lock"), std::error_code());
  };
  failing.operator()<&table::fallocate>(ENOSPC);
  failing.operator()<&table::ftruncate>(EIO);
  failing.operator()<&table::pwritev2>(ENOSPC);
  failing.operator()<&table::mmap>(ENOMEM);
  failing.operator()<&table::fcntl>(ENOLCK);
  failing.operator()<&table::fdatasync>(EIO);
  failing.operator()<&table::getrandom>(ENOSYS);
}

TEST_F(memory_map_, goes_on_with_its_file_when_the_name_leads_to_another) {
  memory_map<> m = open();
  auto const held = m.lock(a).value();
  std::filesystem::remove(path);
  memory_map<> anew = open(); // another file, another mutex
  EXPECT_TRUE(anew.try_lock(a).has_value());
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
}

} // namespace
