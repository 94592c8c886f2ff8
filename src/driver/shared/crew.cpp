#include "driver/shared/crew.hpp"

#include "driver/engine/rooms.hpp"
#include "sys/descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::driver {

crew::crew(io_multiplexer& of, int threads, bool stays) noexcept
    : unclaimed_(of), threads_(threads), stays_(stays), everybodys_(*this) {}

// ---- posted work ------------------------------------------------------------------------------------------

bool crew::has_work() const noexcept {
  if (everybodys_.has_work() || unclaimed_.has_some()) return true;
  return std::ranges::any_of(slots(), [](slot const& s) { return s.has_work(); });
}

bool crew::has_work_beside(slot const& mine) const noexcept {
  if (everybodys_.has_work() || unclaimed_.has_some()) return true;
  return std::ranges::any_of(slots(), [&](slot const& s) { return &s != &mine && s.has_work(); });
}

bool crew::fetch(slot& s) noexcept {
  if (everybodys_.has_work() && everybodys_.give(s, present(), 64)) return true;
  return steal(s);
}

bool crew::steal(slot& s) noexcept {
  return from_another(s, [&s](slot& other) { return other.give(s, 2, 64) || other.give_older(s); });
}

bool crew::help(slot& s) noexcept {
  return from_another(s, [&s](slot& other) { return other.give(s, 2, 64) || other.give_oldest(s); });
}

template <class Take> bool crew::from_another(slot& s, Take take) noexcept {
  return any_from(&s, [&](slot& other) { return &other != &s && other.has_work() && take(other); });
}

template <class F> bool crew::any_from(slot const* s, F f) noexcept {
  auto const next = [this](slot const* of) {
    slot* const after = of != nullptr ? slot_list::after(*of) : nullptr;
    return after != nullptr ? after : slots_.first();
  };
  slot* const begin = next(s);
  for (slot* p = begin; p != nullptr;) {
    if (f(*p)) return true;
    p = next(p);
    if (p == begin) break;
  }
  return false;
}

bool crew::withdraw(work& w) noexcept {
  if (everybodys_.remove(w)) return true;
  return std::ranges::any_of(slots(), [&](slot& s) { return s.remove(w); });
}

void crew::drop_posted() noexcept {
  // One at a time: what is dropped may post, and may take back what waits here.
  auto const next = [this]() noexcept -> work* {
    if (work* const w = everybodys_.pop(); w != nullptr) return w;
    for (slot& s : slots()) {
      if (work* const w = s.pop(); w != nullptr) return w;
      if (work* const w = s.pop_spawned(); w != nullptr) return w;
    }
    return nullptr;
  };
  while (work* const w = next()) (*w)(false);
}

// ---- sleeping and waking (wake_gate.hpp) ------------------------------------------------------------------

void crew::call_one() noexcept {
  gate_.call_one(
      slots(), [](slot& s) -> wake_gate<>::sleeper& { return s.sleeper; },
      [this](slot& s) { with_engine(s, [](engine& e) { e.poke(); }); }, [this] { return has_work(); });
}

void crew::wake_all() noexcept {
  for (slot& s : slots()) with_engine(s, [](engine& e) { e.wake(); });
}

// The lock keeps the engine from being destroyed meanwhile.
template <class F> void crew::with_engine(slot& s, F f) noexcept {
  s.engine_lock.lock();
  if (engine* const e = s.others_engine(); e != nullptr) f(*e);
  unlock(s);
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
    if (e != nullptr && e->is_asleep() && take_wake()) {
      woken_.store(&s, std::memory_order_relaxed);
      e->wake();
    }
    unlock(s);
    return false;
  });
}

bool crew::is_quiet() const noexcept {
  if (gate_.sleepers() < static_cast<std::uint32_t>(threads_) ||
      pending_.load(std::memory_order_acquire) != 0)
    return false;
  return std::ranges::all_of(slots(), [](slot const& s) {
    if (!s.is_pools) return true; // a thread that came by
    engine const* const e = s.others_engine();
    return e != nullptr && e->is_asleep();
  });
}

// ---- the end of a pool ------------------------------------------------------------------------------------

void crew::end() noexcept {
  if (phase_.exchange(phase::over, std::memory_order_acq_rel) == phase::over) return;
  phase_.notify_all();
  wake_all();
}

void crew::end_when_quiet() noexcept {
  phase expected = phase::open;
  phase_.compare_exchange_strong(expected, phase::closing, std::memory_order_seq_cst);
  wake_all(); // so that those who sleep already look whether it is quiet
  while (!is_over()) phase_.wait(phase::closing, std::memory_order_acquire);
}

// ---- operations that no thread runs yet (unclaimed.hpp) ---------------------------------------------------

void crew::start_unclaimed(io_operation& op) noexcept {
  if (op.faces().begin != nullptr) op.faces().begin(op);
  op.links.due = moment_of(op, op.faces().wants(op));
  op.for_each_descriptor(&sys::enter_flight);
  count(1);
  unclaimed_.add(op); // from here on it may end
  call_one();
}

// One that waits for other operations has to be performed once more, and one that yields many values may
// have some yet.
void crew::end_unclaimed(operation_queue& ops) noexcept {
  while (io_operation* const op = ops.pop()) {
    operation_links& l = op->links;
    unsigned ends = (l.is.undelivered & io_operation::done) != 0 ? l.is.undelivered : 0U;
    l.is.cancel_wanted = true;
    while (ends == 0) {
      bool const has_value = (l.is.undelivered & io_operation::value) != 0;
      l.is.undelivered = 0;
      if (has_value) op->deliver(io_operation::value);
      outcome o = op->faces().complete(*op, -ECANCELED, 0);
      if (o == outcome::pending)
        o = op->faces().complete(*op, op->faces().perform(*op, attempt::nonblocking), 0);
      if (o == outcome::more) {
        l.is.undelivered = io_operation::value;
      } else {
        ends = io_operation::value | io_operation::done;
      }
    }
    op->for_each_descriptor(&sys::leave_flight);
    move(*op, place::landed);
    move(*op, place::idle);
    l.is.undelivered = 0;
    op->deliver(ends); // it may be gone now
    count(-1);
  }
}

void crew::count(int change) noexcept {
  if (pending_.fetch_add(change, std::memory_order_seq_cst) + change != 0 || stays_) return;
  for (slot& s : slots()) // the last has ended: those that sleep are done
    with_engine(s, [](engine& e) { e.poke(); });
}

// ---- a thread's place -------------------------------------------------------------------------------------

slot::slot(crew& c) noexcept : all(c) { unclaimed = &c.unclaimed_; }

int slot::run_shared(int max_items) noexcept {
  if (max_items <= 0 || all.is_over()) return 0;
  // What is everybody's must not wait for ever behind what this thread posts to itself.
  if (all.everybodys_.has_work()) all.everybodys_.give(*this, all.present(), 64);
  // Nor what waits behind a work that takes long, though all others are always busy with what they post
  // themselves; nor what was spawned behind what is spawned later.
  if (++turns_ % 64 == 0) {
    if (all.threads_ != 1) all.help(*this);
    age();
  }
  if (!has_work() && (all.threads_ == 1 || !all.fetch(*this))) return 0;
  int const of_posted = has_spawned() ? max_items / 2 + static_cast<int>(max_items & turns_ & 1) : max_items;
  int const n = run_posted(of_posted);
  return n + run_spawned(std::min(max_items - n, turn_budget));
}

int slot::run_posted(int at_most) noexcept {
  if (at_most == 0) { // one may be spawned that takes long
    all.call_one();
    return 0;
  }
  int left = 0;
  work* w = pop(&left);
  if (left > 1) all.call_one();
  int n = 0;
  // No more than there were: what they post is for the next turn.
  engine& here = *own_engine();
  bool const only_one = left == 1 && !has_spawned();
  for (left = std::min(left, at_most); w != nullptr; w = pop()) {
    here.begin_work(only_one);
    (*w)();
    if (++n >= left || all.is_over()) break;
  }
  return n;
}

// Also what they spawn.
int slot::run_spawned(int at_most) noexcept {
  engine& here = *own_engine();
  int n = 0;
  while (n < at_most && !all.is_over()) {
    work* const w = pop_spawned();
    if (w == nullptr) break;
    here.begin_work(n == 0 && !has_work());
    (*w)();
    ++n;
  }
  return n;
}

bool slot::has_shared() noexcept { return !all.is_over() && all.has_work(); }

bool slot::before_sleep(int landed) noexcept {
  if (all.is_over()) return false; // only waits for what it has cancelled
  all.gate_.lie_down(sleeper);
  if (all.has_work() || all.wakes_.load(std::memory_order_seq_cst)) return true;
  // The last operation may have ended since this thread looked, and its thread not have seen this one asleep.
  if (!all.stays_ && all.pending_.load(std::memory_order_seq_cst) == landed) return true;
  if (all.phase_.load(std::memory_order_seq_cst) == crew::phase::closing && all.is_quiet()) {
    all.end();
    return true;
  }
  return false;
}

void slot::after_sleep() noexcept {
  if (!all.gate_.rise(sleeper)) return;
  if (unclaimed->may_have_some()) own_engine()->claim();
  all.fetch(*this);
  all.gate_.answered();
  if (has_more_than_one() || all.has_work_beside(*this)) all.call_one();
}

void slot::count(int change) noexcept { all.count(change); }

bool slot::take_wake() noexcept { return all.take_wake(); }

void slot::give_wake() noexcept { all.wake(); }

void slot::poke() noexcept {
  all.with_engine(*this, [](engine& e) { e.poke(); });
}

void slot::claim(engine& by) noexcept {
  if (all.is_over()) return;
  operation_queue ops = unclaimed->take(by, std::max(1, all.present()));
  while (io_operation* const op = ops.pop()) by.take_over(*op);
}

void slot::give_work(work& w) noexcept { all.everybodys_.push(w); }

void slot::start_unclaimed(io_operation& op) noexcept { all.start_unclaimed(op); }

int slot::pending() noexcept {
  return all.pending_.load(std::memory_order_acquire) + (all.stays_ && !all.is_over() ? 1 : 0);
}

} // namespace unio::driver
