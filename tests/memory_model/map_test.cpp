// memory_map's slots (src/locks/map_protocol.hpp, and the quick way of include/unio/detail) in every
// execution that the memory model of C++ allows: the same templates as in the library, over the atomics, the
// futex and the deaths of checker.hpp.
//
// What is claimed in each execution:
//
//   exclusion      what an owner writes and sharers read is no data race, and no other thread is inside
//                  with an owner
//   no forgetting  unless somebody died nobody sleeps until a probe; after deaths everybody gets in all the
//                  same
//   telling        who owns an entity next after its owner died inside is told, and again if that one dies;
//                  nobody is told of more deaths than there were, or of the death of who had another entity
//                  of the slot, but where there is no room for notes
//   in the end     nothing is owned, shared or reserved by those that live
//
// The mutants, weaker orders and forgotten steps, must each be found out in some case.

#include "locks/map_protocol.hpp"
#include "memory_model/checker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace memory_model;
namespace layout = unio::fs::map_layout;
using unio::fs::entity;
using unio::fs::detail::holding;
using unio::fs::detail::waiting;

// ── the machine that the protocol runs on ──────────────────────────────────────────────────────────────────

constexpr std::int64_t deadline_ns = 1'000'000'000 + 1'000'000; // sooner than the first probe
constexpr std::uint64_t fair_at_first_ns =
    1'000'000'000 + layout::fair_after_ns;          // of a world that begins at 1 s
constexpr std::uint64_t numbers[] = {1, 65, 2, 66}; // of the users: in two words of readers

struct machine {
  template <class T> using atomic = memory_model::atomic<T>;
  using slot = layout::basic_slot<memory_model::atomic, 128>;
  using notes = layout::basic_notes<memory_model::atomic, 1, 1>; // the least: more is soon too much

  static inline world* in = nullptr;
  static inline char const* planted = "";

  static void relax() {
    in->spin();
  } // the attempts before sleeping are none, so it is a thread of the same user
  static void yield() {}
  static std::int64_t now() { return in->now(); }
  static void sleep_on(atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t until_ns) {
    memory_model::sleep_on(word, seen, until_ns, until_ns == deadline_ns);
  }
  static int wake_sleepers(atomic<std::uint32_t>& word, int how_many) {
    return memory_model::wake_sleepers(word, how_many);
  }
  static void step(char const*) {}
  static bool defect(char const* id) { return std::string_view(id) == planted; }

  int is_alive(std::uint64_t user) {
    return user == numbers[me] || defect("stolen") ? user == numbers[me] : locks->is_held(lock_of(user));
  }
  template <class F> int alone_with(std::uint64_t user, F undo) {
    if (defect("stolen")) return undo(), 0;
    if (!locks->try_hold(lock_of(user))) return -EAGAIN;
    undo();
    locks->let_go(lock_of(user));
    return 0;
  }
  void forget(std::uint64_t) {}

  static int lock_of(std::uint64_t user) {
    return static_cast<int>(std::find(std::begin(numbers), std::end(numbers), user) - std::begin(numbers));
  }
  std::size_t me = 0;
  kernel_locks* locks = nullptr;
};

using protocol = layout::protocol<machine>;

// ── the threads ────────────────────────────────────────────────────────────────────────────────────────────

enum class patience { any, none, some };

struct request {
  std::size_t user;
  std::vector<entity> entities;
  patience how = patience::any;
  int times = 1;
  bool quick = true;        // tries the quick way first
  bool also_shares = false; // asks to share the first of them, too, and that first
};

struct scene {
  char const* name;
  std::vector<request> threads;
  std::vector<int> deaths = {};
  int preemptions = -1;
  bool not_yet_fair = false; // nothing is reserved
  bool degrades = false;     // one more thread makes the epoch odd, and then looks at slot 0
  bool has_room = true;      // for notes of all deaths
};

entity const whole(0);
entity const part = entity(0).shared();
entity const other(1);
entity const beside(2); // in the slot of 0
std::size_t slot_of(std::uint64_t value) noexcept { return value % 2; }

struct user {
  machine on;
  protocol slots{on};
};

struct stage {
  machine::slot slots[2];
  machine::notes notes[2];
  atomic<std::uint64_t> epoch;
  kernel_locks locks;
  std::vector<std::unique_ptr<user>> users;
  std::vector<std::unique_ptr<atomic<std::uint32_t>>>
      steps_inside; // a step of its own, so that a death may come there
  struct guarded {
    plain<int> data;
    int written = 0;
    int owners = 0, sharers = 0;
    bool is_lost = false;          // an owner died inside, which is not reported yet
    bool owner_is_to_know = false; // a sharer that got the report died
    bool may_be_told = false;      // a thread died that wanted it alone, or had the report
  } guarded[3];
  struct where {
    std::vector<entity> inside;
    bool was_told = false;
  };
  std::vector<where> threads;
  std::vector<std::vector<entity>> wanted; // by each thread
  unsigned told = 0;
  bool has_room = true;
};

void enter(world& w, stage& s, std::size_t thread, request const& r, bool told) {
  s.threads[thread] = {r.entities, told};
  if (told && ++s.told > w.deaths()) return w.fail("told of more deaths than there were");
  if (told && s.has_room &&
      std::ranges::none_of(r.entities, [&](entity e) { return s.guarded[e.value].may_be_told; }))
    return w.fail("told of the death of who had something else");
  for (entity const e : r.entities) {
    auto& g = s.guarded[e.value];
    if (g.owners != 0 || (e.exclusive && g.sharers != 0)) return w.fail("not alone");
    // Another sharer may have the report and not have come so far.
    bool const may_know = !e.exclusive && [&] {
      for (std::size_t t = 0; t != s.wanted.size(); ++t)
        if (t != thread && std::ranges::find(s.wanted[t], e) != s.wanted[t].end()) return true;
      return false;
    }();
    if ((g.is_lost || (e.exclusive && g.owner_is_to_know)) && !told && !may_know)
      return w.fail("not told of a death");
    if (told || !may_know) g.is_lost = g.owner_is_to_know = false;
    if (e.exclusive) {
      g.data.write(g.data.read() + 1);
      ++g.written;
      ++g.owners;
    } else {
      if (g.data.read() != g.written) return w.fail("an old value");
      ++g.sharers;
    }
  }
}

void leave(stage& s, std::size_t thread) {
  for (entity const e : std::exchange(s.threads[thread].inside, {}))
    --(e.exclusive ? s.guarded[e.value].owners : s.guarded[e.value].sharers);
}

void die(stage& s, std::size_t thread) {
  stage::where const at = s.threads[thread];
  leave(s, thread);
  for (entity const e : s.wanted[thread])
    if (e.exclusive || at.was_told) s.guarded[e.value].may_be_told = true;
  s.wanted[thread].clear();
  for (entity const e : at.inside) {
    if (e.exclusive && s.has_room) s.guarded[e.value].is_lost = true;
    if (!e.exclusive && at.was_told) s.guarded[e.value].owner_is_to_know = true;
  }
}

// As memory_map::lock() and entities_guard::unlock().
void lock_and_unlock(world& w, stage& s, std::size_t thread, request const& r) {
  user& u = *s.users[r.user];
  std::uint64_t const me = numbers[r.user];
  holding held;
  entity const first = r.entities[0];
  std::size_t const slot = slot_of(first.value);
  s.wanted[thread] = r.entities;
  bool const is_quick = r.quick && r.entities.size() == 1 && first.exclusive &&
                        unio::fs::map_layout::own_at_once(s.slots[slot], first.value, me, s.epoch,
                                                          [&] { u.slots.disown(slot); });
  if (is_quick) {
    held.entities.assign_one(entity(slot));
  } else {
    std::vector<entity> asked = r.entities;
    if (r.also_shares) asked.insert(asked.begin(), first.shared());
    (void)held.entities.assign(asked, [](entity e) { return entity(slot_of(e.value), e.exclusive); });
    held.entities.canonicalize();
    waiting how;
    if (r.how == patience::none) how.due_ns = 0;
    if (r.how == patience::some) how.due_ns = deadline_ns;
    int const e = u.slots.lock(held, how, 0);
    if (e == protocol::degraded_meanwhile) return;
    if (e != 0 && r.how == patience::any) return w.fail("lock: " + std::to_string(e));
    if (e != 0) return;
  }
  enter(w, s, thread, r, held.owner_died);
  (void)s.steps_inside[thread]->fetch_add(1, std::memory_order_relaxed);
  leave(s, thread);
  if (!is_quick || !unio::fs::detail::disown_word(s.slots[slot].word, s.slots[slot].held, me))
    u.slots.unlock(held);
  s.wanted[thread].clear();
}

// Whoever cannot see the map: makes the epoch odd; then waits for those that looked before.
void degrade(world& w, stage& s) {
  s.epoch.store(1);
  while (s.slots[0].word.load() != 0) w.spin();
  if (s.guarded[0].owners != 0) return w.fail("not alone after degrading");
  s.guarded[0].data.write(-1);
}

void check_end(world& w, stage& s, scene const& c) {
  std::set<std::uint64_t> dead;
  for (int d : c.deaths) dead.insert(numbers[c.threads[static_cast<std::size_t>(d)].user]);
  for (auto& slot : s.slots) {
    std::uint64_t const word = slot.word.load();
    if (layout::owner_of(word) != 0 && !dead.contains(layout::owner_of(word)))
      return w.fail("owned in the end");
    if (layout::told_of(word) != 0 && !dead.contains(layout::told_of(word))) return w.fail("told in the end");
    for (std::size_t i = 0; i != s.users.size(); ++i) {
      std::uint64_t const bits = slot.readers[(numbers[i] - 1) / 64].load();
      bool const shares = (bits >> ((numbers[i] - 1) % 64) & 1) != 0;
      if (shares && !dead.contains(numbers[i])) return w.fail("shared in the end");
      std::uint64_t const told = s.notes[&slot - s.slots].told_of.load();
      if (!shares && layout::teller_of(told, 0) == numbers[i])
        return w.fail("a note is kept from all others");
    }
  }
}

void set_up(world& w, scene const& c) {
  auto const s = std::make_shared<stage>();
  machine::in = &w;
  for (std::size_t i = 0; i != 2; ++i) {
    w.name(&s->slots[i].word, i == 0 ? "word" : "word 1");
    w.name(&s->slots[i].turn, i == 0 ? "turn" : "turn 1");
    w.name(&s->slots[i].drain, i == 0 ? "drain" : "drain 1");
    w.name(&s->slots[i].readers[0], i == 0 ? "readers" : "readers of slot 1");
    w.name(&s->slots[i].readers[1], i == 0 ? "readers" : "readers of slot 1");
    w.name(&s->slots[i].held, "held");
    w.name(&s->notes[i].more[0], "more");
    w.name(&s->notes[i].dead[0], "dead");
    w.name(&s->notes[i].told_of, "teller");
    w.name(&s->notes[i].fair_at_ns, "fair_at");
  }
  w.name(&s->epoch, "epoch");
  w.name(&s->locks, "the bytes");
  if (c.not_yet_fair) s->notes[0].fair_at_ns.start_with(fair_at_first_ns);
  std::size_t const slots = 2;
  std::size_t users = 0;
  for (request const& r : c.threads) users = std::max(users, r.user + 1);
  for (std::size_t i = 0; i != users; ++i) {
    auto u = std::make_unique<user>();
    u->on.me = i;
    u->on.locks = &s->locks;
    u->slots.use(s->slots, s->notes, slots, slot_of, &s->epoch);
    u->slots.be(numbers[i]);
    s->users.push_back(std::move(u));
  }
  w.name_rest("count");
  s->threads.resize(c.threads.size());
  s->wanted.resize(c.threads.size());
  s->has_room = c.has_room;
  for (std::size_t t = 0; t != c.threads.size(); ++t) {
    s->steps_inside.push_back(std::make_unique<atomic<std::uint32_t>>());
    w.name(s->steps_inside.back().get(), "inside");
    s->locks.hold_from_the_start(static_cast<int>(c.threads[t].user), static_cast<int>(t));
    w.thread([&w, s, t, &r = c.threads[t]] {
      for (int i = 0; i != r.times; ++i) lock_and_unlock(w, *s, t, r);
    });
  }
  if (c.degrades) w.thread([&w, s] { degrade(w, *s); });
  for (int d : c.deaths) w.may_die(d, [s, d] { die(*s, static_cast<std::size_t>(d)); });
  w.at_end([&w, s, &c] { check_end(w, *s, c); });
}

report check(scene const& c, options o = {}) {
  o.preemptions = c.preemptions;
  return explore(o, [&](world& w) { set_up(w, c); });
}

// `preemptions` where all executions are too many.
std::vector<scene> const& scenes() {
  constexpr auto any = patience::any;
  constexpr auto try_ = patience::none;
  constexpr auto timed = patience::some;
  static std::vector<scene> const all = {
      {.name = "two owners", .threads = {{0, {whole}, any, 2}, {1, {whole}}}},
      {.name = "two owners, the long way",
       .threads = {{0, {whole}, any, 1, false}, {1, {whole}, any, 1, false}}},
      {.name = "an owner and a sharer", .threads = {{0, {whole}}, {1, {part}}}},
      {.name = "an owner and a sharer, twice",
       .threads = {{0, {whole}, any, 2}, {1, {part}, any, 2}},
       .preemptions = 4},
      {.name = "two threads of one user share", .threads = {{0, {part}, any, 2}, {0, {part}}}},
      {.name = "two threads of one user share, one owns",
       .threads = {{0, {part}}, {0, {part}}, {1, {whole}}},
       .preemptions = 3},
      {.name = "two users share", .threads = {{0, {part}, any, 2}, {2, {part}, any, 2}}},
      {.name = "two users share, one owns",
       .threads = {{0, {part}}, {1, {part}}, {2, {whole}}},
       .preemptions = 3},
      {.name = "one only tries", .threads = {{0, {whole}}, {1, {whole}, try_}}},
      {.name = "one only tries to share", .threads = {{0, {whole}, any, 2}, {1, {part}, try_}}},
      {.name = "one owns or gives up", .threads = {{0, {whole}}, {1, {whole}, timed}}, .preemptions = 5},
      {.name = "one shares or gives up", .threads = {{0, {whole}}, {1, {part}, timed}}, .preemptions = 5},
      {.name = "a sharer, and one who owns or gives up",
       .threads = {{0, {part}}, {1, {whole}, timed}},
       .preemptions = 5},
      {.name = "two slots", .threads = {{0, {whole, other}}, {1, {whole, other}}}},
      {.name = "two slots, one of them wanted by another",
       .threads = {{0, {whole, other}}, {1, {other}, any, 2}}},
      {.name = "two slots, one shared", .threads = {{0, {part, other}}, {1, {whole, other.shared()}}}},
      {.name = "nothing is reserved yet",
       .threads = {{0, {whole}, any, 2}, {1, {whole}}},
       .not_yet_fair = true},
      {.name = "the map ceases to count", .threads = {{0, {whole}}}, .degrades = true},
      {.name = "the map ceases to count, the long way",
       .threads = {{0, {whole}, any, 1, false}},
       .degrades = true},
      {.name = "an owner dies", .threads = {{0, {whole}}, {1, {whole}}}, .deaths = {0}},
      {.name = "an owner dies, a sharer comes", .threads = {{0, {whole}}, {1, {part}}}, .deaths = {0}},
      {.name = "a sharer dies", .threads = {{0, {part}}, {1, {whole}}}, .deaths = {0}},
      {.name = "an owner dies, one only tries",
       .threads = {{0, {whole}}, {1, {whole}, try_, 2}},
       .deaths = {0}},
      {.name = "an owner of two slots dies",
       .threads = {{0, {whole, other}}, {1, {whole, other}}},
       .deaths = {0}},
      {.name = "an owner dies, the owner of another entity comes",
       .threads = {{0, {whole}}, {1, {beside}}},
       .deaths = {0}},
      {.name = "an owner dies, one comes for another entity and then for the same",
       .threads = {{0, {whole}}, {1, {beside}}, {2, {whole}}},
       .deaths = {0},
       .preemptions = 2},
      {.name = "an owner of another entity dies",
       .threads = {{0, {whole}}, {1, {beside}}, {2, {whole}}},
       .deaths = {1},
       .preemptions = 2},
      {.name = "an owner dies, two come who share",
       .threads = {{0, {whole}}, {1, {part}}, {2, {part}}},
       .deaths = {0},
       .preemptions = 2},
      {.name = "an owner of two entities of a slot dies",
       .threads = {{0, {whole, beside}}, {1, {beside}, any, 2}},
       .deaths = {0},
       .has_room = false},
      {.name = "an owner dies, a sharer who was told, and one who shares another entity",
       .threads = {{0, {whole}}, {1, {part}}, {2, {beside.shared()}}},
       .deaths = {0, 1},
       .preemptions = 1},
      {.name = "owners of two entities die, one of them has no room for a note",
       .threads = {{0, {whole}}, {1, {beside}}, {2, {beside}, any, 2}},
       .deaths = {0, 1},
       .preemptions = 1,
       .has_room = false},
      {.name = "an owner dies, one comes that asks for its entity twice",
       .threads = {{0, {whole}}, {1, {whole}, any, 1, false, true}},
       .deaths = {0}},
      {.name = "three owners", .threads = {{0, {whole}}, {1, {whole}}, {2, {whole}}}, .preemptions = 3},
      {.name = "three owners, one gives up",
       .threads = {{0, {whole}}, {1, {whole}}, {2, {whole}, timed}},
       .preemptions = 3},
      {.name = "three owners, one gives up, nothing is reserved yet",
       .threads = {{0, {whole}, any, 2}, {1, {whole}}, {2, {whole}, timed}},
       .preemptions = 2,
       .not_yet_fair = true},
      {.name = "an owner, one who shares, one gives up",
       .threads = {{0, {whole}}, {1, {part}}, {2, {whole}, timed}},
       .preemptions = 3},
      {.name = "an owner dies, and who recovers it",
       .threads = {{0, {whole}}, {1, {whole}, try_}, {2, {whole}}},
       .deaths = {0, 1},
       .preemptions = 1},
      {.name = "an owner dies, and a sharer who was told",
       .threads = {{0, {whole}}, {1, {part}, try_}, {2, {whole}}},
       .deaths = {0, 1},
       .preemptions = 1},
      {.name = "an owner dies, and a sharer who was told, another shares",
       .threads = {{0, {whole}}, {1, {part}, try_}, {2, {part}}},
       .deaths = {0, 1},
       .preemptions = 1},
      {.name = "two sharers die, one owns",
       .threads = {{0, {part}}, {1, {part}}, {2, {whole}}},
       .deaths = {0, 1},
       .preemptions = 1},
  };
  return all;
}

// ── mutants ────────────────────────────────────────────────────────────────────────────────────────────────

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

bool is_of(operation const& op, char const* name) { return std::string_view(op.name).starts_with(name); }
bool loads(operation const& op) { return op.what == action::load; }

// Without a place in S.
void weaken(operation& op) {
  if (op.order != std::memory_order_seq_cst) return;
  op.order = loads(op)                  ? memory_order_acquire
             : op.what == action::store ? memory_order_release
                                        : memory_order_acq_rel;
}
void do_not_acquire(operation& op) { op.order = loads(op) ? memory_order_relaxed : memory_order_release; }
void do_not_release(operation& op) {
  op.order = op.what == action::store ? memory_order_relaxed : memory_order_acquire;
}

struct mutant {
  char const* name;
  char const* found_in; // a scene
  void (*change)(operation&);
  char const* planted = "";
};

constexpr mutant mutants[] = {
    {"nothing is sequentially consistent", "an owner and a sharer", weaken},
    {"words are loaded outside S", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "word") && loads(op)) weaken(op);
     }},
    {"words are exchanged outside S", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "word") && !loads(op)) weaken(op);
     }},
    {"readers are looked for outside S", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "readers") && loads(op)) weaken(op);
     }},
    {"readers are noted outside S", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "readers") && !loads(op)) weaken(op);
     }},
    {"the epoch is loaded outside S", "the map ceases to count",
     [](operation& op) {
       if (is_of(op, "epoch") && loads(op)) weaken(op);
     }},
    {"who owns does not acquire the word", "two owners",
     [](operation& op) {
       if (is_of(op, "word")) do_not_acquire(op);
     }},
    {"who lets go does not release the word", "two owners",
     [](operation& op) {
       if (is_of(op, "word") && op.what == action::compare_exchange && layout::owner_of(op.desired) == 0)
         do_not_release(op);
     }},
    {"who owns does not acquire the readers", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "readers") && loads(op)) do_not_acquire(op);
     }},
    {"who has shared does not release", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "readers") && !loads(op)) do_not_release(op);
     }},
    {"sharers do not acquire their count", "two threads of one user share, one owns",
     [](operation& op) {
       if (is_of(op, "count") && !loads(op)) do_not_acquire(op);
     }},
    {"sharers do not release their count", "two threads of one user share, one owns",
     [](operation& op) {
       if (is_of(op, "count") && op.what == action::store) do_not_release(op);
     }},
    {"turn does not change", "two owners",
     [](operation& op) {
       if (is_of(op, "turn") && op.what == action::exchange) op.desired = 0;
     }},
    {"drain does not change", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "drain") && op.what == action::exchange) op.desired = 0;
     }},
    {"turn changes after the wake-up", "two owners",
     [](operation& op) {
       if (is_of(op, "turn") && op.what == action::exchange) op.is_late = true;
     }},
    {"drain changes after the wake-up", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "drain") && op.what == action::exchange) op.is_late = true;
     }},
    {"nobody is woken", "two owners",
     [](operation& op) {
       if (op.what == action::wake) op.desired = 0;
     }},
    {"nobody notes that he waits", "two owners",
     [](operation& op) {
       if (is_of(op, "word") && op.what == action::compare_exchange &&
           layout::owner_of(op.expected) == layout::owner_of(op.desired))
         op.desired &= ~layout::waiting_bit | op.expected;
     }},
    {"who was woken does not note that others may wait", "three owners",
     [](operation& op) {
       if (is_of(op, "word") && op.what == action::compare_exchange && layout::owner_of(op.expected) == 0 &&
           layout::owner_of(op.desired) != 0)
         op.desired &= ~layout::waiting_bit | op.expected;
     }},
    {"what is reserved stays so", "an owner and a sharer",
     [](operation& op) {
       if (is_of(op, "word") && op.what == action::compare_exchange &&
           (op.expected & layout::reserved_bit) != 0 && layout::owner_of(op.desired) == 0)
         op.desired |= layout::reserved_bit;
     }},
    {"who dies is not told of", "an owner dies", nullptr, "untold"},
    {"all are told again", "an owner dies, one only tries", nullptr, "told again"},
    {"who has another entity is told", "an owner dies, the owner of another entity comes", nullptr,
     "told by slot"},
    {"a dead sharer stays told", "an owner dies, and a sharer who was told", nullptr, "told stays"},
    {"who shares does not look whether the note is there still", "an owner dies, two come who share", nullptr,
     "no third look"},
    {"what was owned stays noted", "an owner of another entity dies",
     [](operation& op) {
       if (is_of(op, "held") && op.desired == 0) op.desired = layout::note_of(0);
     }},
    {"who owns what it was told of as a sharer stays told",
     "an owner dies, one comes that asks for its entity twice", nullptr, "teller stays"},
    {"dead sharers stay", "a sharer dies", nullptr, "L13"},
    {"the living are buried", "one only tries", nullptr, "stolen"},
    {"who shares does not look again", "an owner and a sharer", nullptr, "no second look"},
    {"who gives up wakes nobody", "three owners, one gives up, nothing is reserved yet", nullptr,
     "leaves silently"},
    {"who shares wakes nobody", "an owner and a sharer", nullptr, "shares silently"},
};

class memory_model_mutant : public ::testing::TestWithParam<std::size_t> {};

TEST_P(memory_model_mutant, is_found_out) {
  mutant const& m = mutants[GetParam()];
  machine::planted = m.planted;
  report r;
  for (scene const& c : scenes())
    if (std::string_view(c.name) == m.found_in) r = check(c, {.mutant = m.change});
  machine::planted = "";
  ASSERT_NE(r.error, "") << m.name;
  std::printf("[ found    ] %s: %s, after %llu executions: %s\n", m.name, m.found_in,
              static_cast<unsigned long long>(r.executions), r.error.c_str());
}

INSTANTIATE_TEST_SUITE_P(all, memory_model_mutant, ::testing::Range(std::size_t{0}, std::size(mutants)));

class memory_model_map : public ::testing::TestWithParam<std::size_t> {};

TEST_P(memory_model_map, holds_in_every_execution) {
  scene const& c = scenes()[GetParam()];
  auto const begun = std::chrono::steady_clock::now();
  report const r = check(c);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begun;
  std::printf("[ executed ] %-45s %9llu executions, %llu cut short, %llu with stalls, %.2f s\n", c.name,
              static_cast<unsigned long long>(r.executions), static_cast<unsigned long long>(r.redundant),
              static_cast<unsigned long long>(r.stalls), took.count());
  EXPECT_EQ(r.error, "") << r.how;
  EXPECT_TRUE(r.is_complete) << r.pruned << " too long";
  // The one plain store that has another place to go lets go of a count of sharers, past attempts to take it
  // that fail.
  if (std::string_view(c.name).find("of one user") == std::string_view::npos) {
    EXPECT_EQ(r.unordered, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(all, memory_model_map, ::testing::Range(std::size_t{0}, scenes().size()));

} // namespace
