#include "driver/engine/rooms.hpp"
#include "driver/shared/crew.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace unio::inline v0_1::driver {

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
    if (all.present() != 1) all.help(*this);
    age();
  }
  int const of_new = has_work() ? half(max_items, now >> 1) : max_items;
  int n =
      all.new_.has_work() || leaves_until_ != deadline::forever ? run_new(std::min(of_new, turn_budget)) : 0;
  if (n == max_items || (!has_work() && (n != 0 || !all.fetch(*this)))) return n;
  n += run_posted(has_forked() ? half(max_items - n, now) : max_items - n);
  return has_forked() ? n + run_forked(std::min(max_items - n, turn_budget)) : n;
}

// Before anything leaves a queue. Of a pool's own threads it is enough to see which are asleep (is_quiet).
void slot::count_work() noexcept {
  if (!all.stays_ || !is_pools.load(std::memory_order_relaxed)) own_engine()->count_work();
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
  if (all.has_posted() || (takes_wakes() && all.wakes_.load(std::memory_order_seq_cst))) return true;
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

bool slot::take_wake() noexcept { return takes_wakes() && all.take_wake(); }

void slot::give_wake() noexcept { all.wake(); }

void slot::take_wakes(bool on) noexcept { takes_wakes_.store(on, std::memory_order_seq_cst); }

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
void slot::ask_to_end(io_operation& op) noexcept { unclaimed->ask_to_end(op); }

std::int64_t slot::pending() noexcept {
  return all.pending(&begun_) + (all.stays_ && !all.is_over() ? 1 : 0);
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

} // namespace unio::driver
