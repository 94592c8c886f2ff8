#include "driver/shared/crew.hpp"

#include "driver/engine/rooms.hpp"
#include "sys/descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::driver {

crew::crew(io_multiplexer& of, int threads, bool stays) noexcept
    : unclaimed_(of), threads_(threads), stays_(stays), everybodys_(*this), new_(*this) {}

// ---- posted work ------------------------------------------------------------------------------------------

bool crew::has_posted() const noexcept {
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
  auto const next = [&] {
    slot* const after = s != nullptr ? slot_list::after(*s) : nullptr;
    return after != nullptr ? after : slots_.first();
  };
  for (slot& each : slots_from(slots_, next))
    if (f(each)) return true;
  return false;
}

bool crew::withdraw(work& w) noexcept {
  if (everybodys_.remove(w) || new_.remove(w)) return true;
  return std::ranges::any_of(slots(), [&](slot& s) { return s.remove(w); });
}

void crew::drop_posted() noexcept {
  // One at a time: what is dropped may post, and may take back what waits here.
  auto const next = [this]() noexcept -> work* {
    for (slot* const nobodys : {&everybodys_, &new_})
      if (work* const w = nobodys->pop(); w != nullptr) return w;
    for (slot& s : slots()) {
      if (work* const w = s.pop(); w != nullptr) return w;
      if (work* const w = s.pop_forked(); w != nullptr) return w;
    }
    return nullptr;
  };
  while (work* const w = next()) (*w)(false);
}

// ---- what is new ------------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t longest_left_ns = 1'000'000;
constexpr std::int64_t longest_left_to_sleepers_ns = 10'000'000;

} // namespace

// Those that lie above the level have no part in it: it is sought again without them.
int crew::share_of_new(slot const& of, int n) const noexcept {
  int level = std::numeric_limits<int>::max();
  for (int before = 0;;) {
    int sum = n;
    int below = 0;
    for (slot const& s : slots()) {
      int const load = s.load();
      if (load >= level || (&s != &of && !s.answers())) continue;
      sum += load;
      ++below;
    }
    if (below == before || below == 0) return std::clamp(level - of.load(), 0, n);
    before = below;
    level = (sum + below - 1) / below;
  }
}

slot* crew::least_busy_sleeper() const noexcept {
  slot* least = nullptr;
  for (slot& s : slots()) {
    engine const* const e = s.others_engine();
    if (e != nullptr && e->is_asleep() && (least == nullptr || s.load() < least->load())) least = &s;
  }
  return least;
}

bool crew::has_new_beside(slot const& mine) noexcept {
  if (!new_.has_work()) return false;
  int const n = new_.waiting();
  slot const* const other = least_busy_sleeper();
  return other != nullptr && share_of_new(mine, n) < n && share_of_new(*other, n) > 0;
}

void slot::say_load() noexcept {
  load_.store(static_cast<int>(own_engine()->in_flight()) + queued(), std::memory_order_relaxed);
}

// Null: others are to begin it.
work* slot::take_new() noexcept {
  bool const leaves = leaves_until_ != deadline::forever;
  bool const is_late = leaves && own_engine()->now() >= leaves_until_;
  if (is_late) {
    for (slot& s : all.slots())
      if (&s != this && s.load() < load() && (leaves_longer_ || !s.sleeps())) s.pass_over();
  }
  work* const w = all.new_.pop_if([&](int n) {
    if (!(is_late && leaves_longer_) && all.share_of_new(*this, n) == 0) return false;
    load_.store(load() + 1, std::memory_order_relaxed); // under the lock: the next that looks sees it
    return true;
  });
  if (w != nullptr) {
    leaves_until_ = deadline::forever;
  } else if (!leaves || is_late) {
    leaves_longer_ = is_late;
    leaves_until_ = own_engine()->now() + (is_late ? longest_left_to_sleepers_ns : longest_left_ns);
    if (!is_late)
      for (slot& s : all.slots())
        if (&s != this) s.expect();
  }
  return w;
}

int slot::run_new(int at_most) noexcept {
  engine& here = *own_engine();
  int n = 0;
  if (!all.new_.has_work()) leaves_until_ = deadline::forever;
  for (; n < at_most && all.new_.has_work() && !all.is_over(); ++n) {
    work* const w = take_new();
    if (w == nullptr) break;
    here.begin_work(!has_work() && !all.new_.has_work() && !here.has_results());
    {
      engine::outside const away(here);
      (*w)();
    }
    say_load();
  }
  return n;
}

std::int64_t slot::look_again() noexcept {
  if (!all.new_.has_work()) leaves_until_ = deadline::forever;
  return std::min(leaves_until_, next_look_);
}

// ---- sleeping and waking (wake_gate.hpp) ------------------------------------------------------------------

template <class Slots> void crew::call_one_of(Slots&& from) noexcept {
  gate_.call_one(
      from, [](slot& s) -> wake_gate<>::sleeper& { return s.sleeper; },
      [this](slot& s) { with_engine(s, [](engine& e) { e.poke(); }); }, [this] { return has_work(); });
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

// The lock keeps the engine from being destroyed.
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
  if (gate_.sleepers() < static_cast<std::uint32_t>(threads_) || pending() != 0 || new_.has_work())
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
  begin_beside();
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
    end_beside();
  }
}

// ---- what is pending (tally.hpp) --------------------------------------------------------------------------

template <class F> void crew::for_each_tally(F f) const noexcept {
  f(beside_);
  for (slot const& s : slots()) f(s.counts); // one that is new here has ended nothing when it is missed
}

std::uint64_t crew::begun() const noexcept {
  return tally<>::all_begun([this](auto f) { for_each_tally(f); });
}

std::int64_t crew::pending(std::uint64_t* begun) const noexcept {
  auto const each = [this](auto f) { for_each_tally(f); };
  (void)tally<>::all_ended(each); // brings what is read below
  std::uint64_t const ended = tally<>::all_ended(each);
  std::uint64_t const all = this->begun();
  if (begun != nullptr) *begun = all;
  return static_cast<std::int64_t>(all - ended);
}

// The last may have ended: then those that sleep are done. What has ended on one of them in whose receiver it
// sleeps is not what it waits for.
void crew::look_for_the_end() noexcept {
  if (stays_ || gate_.sleepers() == 0) return;
  std::int64_t const left = pending();
  for (slot& s : slots())
    if (left == s.landed_.load(std::memory_order_relaxed)) with_engine(s, [](engine& e) { e.poke(); });
}

void crew::end_beside() noexcept {
  beside_.end_by_any(1);
  look_for_the_end();
}

// ---- threads that are away (taking.cpp) -------------------------------------------------------------------
//
// A thread that is in receivers and posted work for long does not see what comes for the operations that it
// has in flight. So one of those that sleep looks up now and then while others are awake, and takes over what
// one of them does not go on with: each millisecond, and less often if a thread stays away for long. It stops
// when all have slept for a while, or have nothing that could be taken. A thread that wakes and calls a
// receiver, or leaves the engine with something in flight, and finds that none looks, has one do it.

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
void slot::leaves(bool has_in_flight) noexcept {
  if (has_work()) all.call_one();
  if (has_in_flight) goes_away();
}

// ---- a thread's place -------------------------------------------------------------------------------------

slot::slot(crew& c) noexcept : all(c) { unclaimed = &c.unclaimed_; }

namespace {
// Of an odd number, the larger one in every other turn.
int half(int n, unsigned turn) noexcept {
  return n / 2 + static_cast<int>(static_cast<unsigned>(n) & turn & 1);
}
} // namespace

int slot::run_shared(int max_items) noexcept {
  if (max_items <= 0 || all.is_over() || is_ending()) return 0;
  unsigned const now = turn() + 1;
  turns_.store(now, std::memory_order_relaxed);
  say_load();
  if (!has_work() && !all.has_work()) return 0;
  count_work();
  // What is everybody's must not wait for ever behind what this thread posts to itself.
  if (all.everybodys_.has_work()) all.everybodys_.give(*this, all.present(), 64);
  // Nor what waits behind a work that takes long, though all others are always busy with what they post
  // themselves; nor what was forked behind what is forked later.
  if (now % 64 == 0) {
    if (all.threads_ != 1) all.help(*this);
    age();
  }
  int const of_new = has_work() ? half(max_items, now >> 1) : max_items;
  int n =
      all.new_.has_work() || leaves_until_ != deadline::forever ? run_new(std::min(of_new, turn_budget)) : 0;
  if (n == max_items || (!has_work() && (n != 0 || all.threads_ == 1 || !all.fetch(*this)))) return n;
  n += run_posted(has_forked() ? half(max_items - n, now) : max_items - n);
  return has_forked() ? n + run_forked(std::min(max_items - n, turn_budget)) : n;
}

// Before anything leaves a queue. A pool's run() never says that nothing is pending.
void slot::count_work() noexcept {
  if (!all.stays_) own_engine()->count_work();
}

int slot::run_posted(int at_most) noexcept {
  if (at_most == 0) { // one may be forked that takes long
    all.call_one();
    return 0;
  }
  int left = 1;
  work* w = pop_only();
  if (w == nullptr) w = pop(&left);
  if (left > 1) all.call_one();
  int n = 0;
  // No more than there were: what they post is for the next turn.
  engine& here = *own_engine();
  bool const alone = left == 1 && !has_forked() && !here.has_results();
  engine::outside const away(here);
  for (left = std::min(left, at_most); w != nullptr; w = pop()) {
    here.begin_work(alone);
    (*w)();
    if (++n >= left || all.is_over()) break;
  }
  return n;
}

// Also what they fork.
int slot::run_forked(int at_most) noexcept {
  if (at_most <= 0 || all.is_over()) return 0;
  work* w = pop_forked();
  if (w == nullptr) return 0;
  engine& here = *own_engine();
  bool alone = !has_work() && !here.has_results();
  engine::outside const away(here);
  int n = 0;
  for (; w != nullptr; w = pop_forked()) {
    here.begin_work(std::exchange(alone, false));
    (*w)();
    if (++n >= at_most || all.is_over()) break;
  }
  return n;
}

// What was begun since nothing was pending may be what was in a queue then, and has left it.
bool slot::has_shared() noexcept { return !all.is_over() && (all.has_work() || all.begun() != begun_); }

bool slot::before_sleep(int landed) noexcept {
  next_look_ = deadline::forever;
  if (all.is_over() || is_ending()) return false; // only waits for what it has cancelled
  sleeps_.store(true, std::memory_order_relaxed);
  landed_.store(landed, std::memory_order_relaxed); // seen by who sees this thread counted at the gate
  all.gate_.lie_down(sleeper);
  if (all.has_posted() || all.wakes_.load(std::memory_order_seq_cst)) return true;
  if (leaves_until_ == deadline::forever && all.new_.has_work()) return true; // since its turn
  // The last operation may have ended since this thread looked, and its thread not have seen this one asleep.
  if (!all.stays_ && own_engine()->in_flight() == 0 && all.pending() == landed) return true;
  if (all.phase_.load(std::memory_order_seq_cst) == crew::phase::closing && all.is_quiet()) {
    all.end();
    return true;
  }
  return all.look_at_others(*this);
}

void slot::after_sleep() noexcept {
  sleeps_.store(false, std::memory_order_relaxed);
  if (std::exchange(next_look_, deadline::forever) != deadline::forever)
    all.watches_.store(false, std::memory_order_seq_cst);
  if (!all.gate_.rise(sleeper)) return;
  if (unclaimed->may_have_some()) own_engine()->claim();
  count_work();
  if (!all.new_.has_work()) all.fetch(*this);
  all.gate_.answered();
  if (has_more_than_one() || all.has_work_beside(*this)) {
    all.call_one();
  } else if (all.has_new_beside(*this)) {
    all.call_for_new();
  }
}

void slot::ended_all(int n) noexcept {
  counts.end_all(static_cast<unsigned>(n));
  all.look_for_the_end();
}

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

void slot::go_on_without(engine& other, io_operation const& op) noexcept {
  io_multiplexer& both = unclaimed->of();
  if (io_multiplexer& mine = both.of_this_thread(); &mine != &both)
    static_cast<engine&>(mine).go_on_without(other, op);
}

void slot::give_work(work& w) noexcept { all.everybodys_.push(w); }

void slot::start_unclaimed(io_operation& op) noexcept { all.start_unclaimed(op); }

std::int64_t slot::pending() noexcept {
  return all.pending(&begun_) + (all.stays_ && !all.is_over() ? 1 : 0);
}

} // namespace unio::driver
