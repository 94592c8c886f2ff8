#include "driver/engine/rooms.hpp"
#include "driver/shared/crew.hpp"

#include <algorithm>

namespace unio::inline v0_1::driver {

// ---- sleeping and waking (wake_gate.hpp) ------------------------------------------------------------------

template <class Slots> void crew::call_one_of(Slots&& from) noexcept {
  gate_.call_one(
      from, [](slot& s) -> wake_gate<>::sleeper& { return s.sleeper; },
      [this](slot& s) { with_engine(s, [](engine& e) { e.poke(); }); },
      [this] { return has_work() && !is_copy(); }); // a child's copy may count one that is not there
}

void crew::call_one() noexcept { call_one_of(slots()); }

// Any that sleeps, if those that have less to do are awake, because they may compute.
void crew::call_for_new() noexcept {
  auto const first = [this] {
    slot* const least = least_busy_sleeper();
    return least != nullptr ? least : slots().first();
  };
  call_one_of(slots_from(slots(), first));
}

void crew::wake_all() noexcept {
  for (slot& s : slots()) with_engine(s, [](engine& e) { e.wake(); });
}

// A wake() waits for no lock, because a handler of signals may call it, and interrupt the thread that has the
// lock. It leaves a mark and tries once more; the holder looks at the mark after it has unlocked. Both are
// read-modify-writes, so one of them sees the other's.
void crew::unlock(slot& s) noexcept {
  s.engine_lock.unlock();
  if (s.missed.exchange(false, std::memory_order_seq_cst)) wake_sleeper();
}

// Either a thread that goes to sleep sees what is set here (before_sleep), or this sees that it sleeps.
void crew::wake() noexcept {
  wakes_.exchange(true, std::memory_order_seq_cst);
  wake_sleeper();
}

// Threads take turns: if the first that sleeps were always the one, others would not return from their run()
// however often they are meant.
void crew::wake_sleeper() noexcept {
  any_from(woken_.load(std::memory_order_relaxed), [this](slot& s) {
    if (!wakes_.load(std::memory_order_seq_cst)) return true;
    if (!s.engine_lock.try_lock()) {
      s.missed.exchange(true, std::memory_order_seq_cst);
      if (!s.engine_lock.try_lock()) return false;
    }
    engine* const e = s.others_engine();
    if (e != nullptr && e->is_asleep() && s.takes_wakes() && take_wake()) {
      woken_.store(&s, std::memory_order_relaxed);
      e->wake();
    }
    unlock(s);
    return false;
  });
}

// ---- threads that are away (taking.cpp) -------------------------------------------------------------------
//
// A thread that is in receivers and posted work for long does not see what comes for the operations that it
// has in flight. So one of those that sleep looks up now and then while others are awake, and takes over what
// one of them does not go on with: each millisecond, and less often if a thread stays away for long. It stops
// when all have slept for a while, or have nothing that could be taken. A thread that wakes and calls a
// receiver or leaves the engine, or leaves it with something in flight, and finds that none looks, has one do
// it.

namespace {

constexpr std::int64_t look_ns = 1'000'000, longest_ns = 100'000'000;
constexpr int looks_in_vain = 16;

} // namespace

// True: it has taken something.
bool crew::look_at_others(slot& s) noexcept {
  if (present() < 2) return false;
  std::int64_t const now = sys::steady_now();
  bool any_awake = false, took = false;
  std::int64_t next = longest_ns;
  for (slot& other : slots()) {
    engine* const e = &other != &s ? other.others_engine() : nullptr;
    if (e == nullptr) continue;
    unsigned const trips = e->trips();
    // Relaxed: of several that look at the same time each may be the one that notes it.
    if (trips != other.seen_trips.load(std::memory_order_relaxed)) {
      other.seen_trips.store(trips, std::memory_order_relaxed);
      other.seen_at.store(now, std::memory_order_relaxed);
      any_awake = true;
      next = look_ns;
      continue;
    }
    if (gate_.is_asleep(other.sleeper)) continue;
    std::int64_t const away = now - other.seen_at.load(std::memory_order_relaxed);
    engine::found const what = away >= look_ns ? s.own_engine()->take_from(*e) : engine::found::its_thread;
    if (what == engine::found::nothing) continue; // it says so when that changes: goes_away()
    any_awake = true;
    took = took || what == engine::found::taken;
    next = std::min(next, std::max(look_ns, away / 4));
  }
  if (took) return true;
  s.looks_left_ = any_awake ? looks_in_vain : std::max(0, s.looks_left_ - 1);
  if (s.looks_left_ == 0 || watches_.exchange(true, std::memory_order_seq_cst)) return false; // one is enough
  s.next_look_ = now + (any_awake ? next : look_ns);
  return false;
}

void slot::goes_away() noexcept {
  if (all.present() < 2 || all.watches_.load(std::memory_order_seq_cst) || all.gate_.sleepers() == 0) return;
  all.any_from(this, [&](slot& other) {
    bool slept = false;
    if (&other != this) all.with_engine(other, [&](engine& e) { slept = e.poke(); });
    return slept;
  });
}

// What it was called for, or has posted, may be in its slot.
void slot::leaves(bool passes_on) noexcept {
  if (has_work()) all.call_one();
  if (passes_on) goes_away();
}

} // namespace unio::driver
