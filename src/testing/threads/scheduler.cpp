#include "testing/threads/scheduler.hpp"

#include "sys/kernel_call.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <span>
#include <string>

namespace unio::inline v0_1::testing::threads {

constinit thread_local thread* me = nullptr;
constinit thread_local int inside = 0;
constinit thread_local unsigned loads_in_a_row = 0;
constinit scheduler* current = nullptr;
constinit run_ended on_end = nullptr;
constinit thread_begun on_begin_thread = nullptr;

namespace {

constexpr unsigned points_without_a_switch = 2000; // a loop that waits for another thread ends so
constexpr unsigned yields_before_time_passes = 64;
constexpr unsigned patient_yields = 16;
constexpr unsigned tries_until_gone = 10'000; // half a second
constexpr std::int64_t slow_by_at_most = 20'000'000;

#define UNIO_NAME(name, parameters, arguments) #name,
#define UNIO_OTHER_NAME(name) #name,
constexpr char const* names[] = {UNIO_SYSTEM_CALLS(UNIO_NAME) UNIO_OTHER_POINTS(UNIO_OTHER_NAME)};
#undef UNIO_NAME
#undef UNIO_OTHER_NAME
static_assert(std::size(names) == static_cast<std::size_t>(at::count));

constexpr char const* needs[] = {"nothing",   "thread", "mutex", "condition", "rwlock",          "once",
                                 "semaphore", "futex",  "time",  "system",    "a program's end", "barrier"};

// Two streams of one seed must not be shifted copies of each other, as those of neighbours would be.
std::uint64_t stream_of(std::uint64_t seed, std::uint64_t purpose) noexcept {
  random_source first(seed);
  return first.next() ^ (purpose * 0xd1342543de82ef95);
}

[[gnu::format(printf, 3, 4)]] void append(std::span<char> to, std::size_t& used, char const* format, ...) {
  va_list list;
  va_start(list, format);
  int const n = std::vsnprintf(to.data() + used, to.size() - used, format, list);
  va_end(list);
  used = std::min(to.size() - 1, used + static_cast<std::size_t>(std::max(n, 0)));
}

} // namespace

char const* name_of(at where) noexcept { return names[static_cast<std::size_t>(where)]; }

strategy strategy::of_seed(std::uint64_t seed, bool slow_threads) noexcept {
  constexpr strategy all[] = {{way::uniform},         {way::sticky, 4},        {way::priorities, 1, 1},
                              {way::sticky, 16},      {way::priorities, 1, 2}, {way::sticky, 64},
                              {way::priorities, 1, 4}};
  strategy s = all[seed % std::size(all)];
  s.slow = slow_threads && (seed / std::size(all)) % 2 != 0;
  return s;
}

scheduler::scheduler(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected_steps,
                     run_record& r)
    : random(stream_of(seed, 1)), options_(o), seed_(seed), strategy_(s), record_(r) {
  record_.fingerprint = 0xcbf29ce484222325;
  for (unsigned i = 0; i != s.changes; ++i) changes_.push_back(1 + random.below(expected_steps + 1));
  std::sort(changes_.begin(), changes_.end(), std::greater<>());
  thread& first = add();
  first.handle = pthread_self();
}

// ---- the baton ------------------------------------------------------------------------------------------

// Builtins: a function of the standard library might be the copy that has points.
void scheduler::take_baton(thread& t) noexcept {
  while (__atomic_exchange_n(&t.baton, 0, __ATOMIC_ACQUIRE) == 0)
    (void)sys::call(SYS_futex, &t.baton, FUTEX_WAIT_PRIVATE, 0, nullptr);
  if (leaving_ != 0) await_end();
}

// The C library gives the heap and the stack of a thread that has ended to the next that begins, and where
// objects lie decides which locks they share in some programs. So no thread goes on before they are given
// back.
void scheduler::await_end() noexcept {
  timespec const moment{0, 50'000};
  for (unsigned tries = 0; tries != tries_until_gone; ++tries) { // its destructors may wait
    if (sys::call(SYS_tgkill, ::getpid(), leaving_, 0) != 0) break;
    (void)(tries < 100 ? sys::call(SYS_sched_yield) : sys::call(SYS_nanosleep, &moment, nullptr));
  }
  leaving_ = 0;
}

void scheduler::give_baton(thread& t) noexcept {
  __atomic_store_n(&t.baton, 1, __ATOMIC_RELEASE);
  (void)sys::call(SYS_futex, &t.baton, FUTEX_WAKE_PRIVATE, 1);
}

void scheduler::note_turn(thread const& to) noexcept {
  run_record::turn& t = record_.last[record_.switches++ % run_record::kept];
  t = {record_.steps, now, static_cast<std::int16_t>(me->number), static_cast<std::int16_t>(to.number),
       me->doing};
  in_a_row_ = 0;
}

void scheduler::pass_baton(thread& to) noexcept {
  thread& mine = *me;
  if (&to == &mine) return;
  if (on_story != nullptr && mine.waits == need::nothing && !mine.has_ended)
    on_story(("T" + std::to_string(to.number) + " goes on, at " + name_of(mine.doing)).c_str());
  note_turn(to);
  give_baton(to);
  take_baton(mine);
}

// ---- choosing -------------------------------------------------------------------------------------------

void scheduler::step(at where) noexcept {
  me->doing = where;
  ++record_.steps;
  auto const mix = [this](std::uint64_t x) {
    record_.fingerprint = (record_.fingerprint ^ x) * 0x100000001b3 ^ record_.fingerprint >> 29;
  };
  mix(static_cast<std::uint64_t>(me->number) << 16 | static_cast<std::uint64_t>(where));
  if (record_.steps > options_.max_steps) {
    report_waiting("so many points, and no end:");
    end(run_end::livelock, "");
  }
}

thread* scheduler::choose(bool yields) noexcept {
  thread* best = nullptr;
  std::uint64_t able = 0;
  for (auto const& t : threads_) {
    if (t->has_ended || t->waits != need::nothing || (yields && t.get() == me)) continue;
    ++able;
    if (best == nullptr || t->priority > best->priority) best = t.get();
  }
  if (able <= 1) return best == nullptr && yields && me->waits == need::nothing ? me : best;
  if (strategy_.how == way::priorities) return best;
  bool const can_stay = !yields && !me->has_ended && me->waits == need::nothing;
  bool const stays =
      strategy_.how == way::undisturbed || (strategy_.how == way::sticky && !random.one_in(strategy_.one_in));
  if (can_stay && stays) return me;
  std::uint64_t left = strategy_.how == way::undisturbed ? 0 : random.below(able);
  if (left == 0 && on_draw != nullptr && can_stay) return me; // as if nothing had been drawn
  for (auto const& t : threads_) {
    if (t->has_ended || t->waits != need::nothing || (yields && t.get() == me)) continue;
    if (left-- == 0) return t.get();
  }
  return best;
}

void scheduler::point(at where) noexcept {
  guard const here;
  loads_in_a_row = 0;
  step(where);
  if (where != at::atomic_load) yields_in_a_row_ = 0;
  if (strategy_.how == way::priorities && !changes_.empty() && record_.steps >= changes_.back()) {
    changes_.pop_back();
    me->priority = --below_all_;
  }
  if (strategy_.slow && random.one_in(256)) (void)move_time(now + slow_by_at_most);
  bool const is_starving = ++in_a_row_ > points_without_a_switch;
  if (is_starving) me->priority = --below_all_, in_a_row_ = 0;
  if (me->stays <= 0) pass_baton(is_starving ? another() : *choose(false));
}

void scheduler::yield() noexcept {
  guard const here;
  step(at::yield);
  // Never above what a change has lowered, or that change would have been in vain; and below it now and then,
  // as that may be what is waited for.
  bool const is_lowered = me->priority < lowered;
  me->priority = is_lowered || ++me->yields % patient_yields == 0 ? --below_all_ : --below_others_;
  // Threads that only look, and give way to each other, wait for one that sleeps.
  if (++yields_in_a_row_ % yields_before_time_passes == 0) (void)move_time(never - 1);
  pass_baton(another());
}

// Time comes to the first moment that a thread waits for, if that is not later than `at_most`.
bool scheduler::move_time(std::int64_t at_most) noexcept {
  std::int64_t due = never;
  for (auto const& t : threads_)
    if (t->waits != need::nothing) due = std::min(due, t->until);
  if (due == never || due > at_most) return false;
  now = std::max(now, due);
  for (auto const& t : threads_) {
    if (t->waits == need::nothing) continue;
    t->looked = false;
    if (t->until > now) continue;
    t->waits = need::nothing;
    t->timed_out = true;
  }
  return true;
}

// No thread can go on but by a look at the system, or by time.
bool scheduler::let_something_happen() noexcept {
  // What a descriptor is ready for may have changed without a call of the table.
  bool any = false;
  for (auto const& t : threads_) {
    if (t->waits != need::system || t->looked) continue;
    t->waits = need::nothing;
    t->looked = any = true;
  }
  if (any) return true;
  if (!move_time(never)) return false;
  if (now - begin_ > options_.max_time.count()) {
    report_waiting("thread_options::max_time has passed:");
    end(run_end::hang, "");
  }
  return true;
}

thread& scheduler::next_to_run() noexcept {
  for (;;) {
    if (thread* const t = choose(false); t != nullptr) return *t;
    if (let_something_happen()) continue;
    report_waiting("no thread can go on, and nothing is due:");
    end(run_end::deadlock, "");
  }
}

// A thread that loops until another one has done something is as good as one that sleeps.
thread& scheduler::another() noexcept {
  thread* t = choose(true);
  if (t == me && let_something_happen()) t = choose(true);
  return *t;
}

bool scheduler::block(need n, void const* what, std::int64_t until) noexcept {
  guard const here;
  thread& mine = *me;
  ++record_.steps;
  mine.waits = n;
  mine.what = what;
  mine.until = until;
  mine.timed_out = false;
  mine.yields = 0;
  pass_baton(next_to_run());
  return !mine.timed_out;
}

void scheduler::wake_all(need n, void const* what) noexcept {
  for (auto const& t : threads_)
    if (t->waits == n && t->what == what) t->waits = need::nothing;
}

int scheduler::wake(need n, void const* what, int at_most) noexcept {
  int woken = 0;
  for (; woken < at_most; ++woken) {
    std::uint64_t waiting = 0;
    for (auto const& t : threads_)
      if (t->waits == n && t->what == what) ++waiting;
    if (waiting == 0) break;
    std::uint64_t left = random.below(waiting);
    for (auto const& t : threads_)
      if (t->waits == n && t->what == what && left-- == 0) {
        t->waits = need::nothing;
        break;
      }
  }
  return woken;
}

void scheduler::system_changed() noexcept {
  for (auto const& t : threads_) {
    if (t->waits != need::system || t.get() == me) continue;
    t->waits = need::nothing;
    t->looked = false;
  }
}

// ---- threads --------------------------------------------------------------------------------------------

thread& scheduler::add() noexcept {
  auto t = std::make_unique<thread>();
  t->number = static_cast<int>(threads_.size());
  if (me != nullptr) t->program = me->program;
  t->priority = static_cast<std::int64_t>(random.below(std::uint64_t{1} << 32)) + 1;
  return *threads_.emplace_back(std::move(t));
}

// The latest: an earlier one that is gone may have had the same handle.
thread* scheduler::find(pthread_t handle) noexcept {
  for (auto i = threads_.rbegin(); i != threads_.rend(); ++i)
    if (pthread_equal((*i)->handle, handle) != 0 && !(*i)->is_joined) return i->get();
  return nullptr;
}

void scheduler::begin_thread(thread& t) noexcept {
  take_baton(t);
  me = &t;
}

void scheduler::end_thread() noexcept {
  guard const here;
  step(at::thread_end);
  bool const is_last =
      std::ranges::all_of(threads_, [](auto const& t) { return t->has_ended || t.get() == me; });
  if (is_last) return; // the C library ends the process
  me->has_ended = true;
  wake_all(need::thread, me);
  for (held const& h : held_) // robust ones can be had then
    if (h.thread == me->number) wake_all(need::mutex, h.what);
  thread& next = next_to_run();
  note_turn(next);
  me = nullptr;
  int const left = static_cast<int>(sys::call(SYS_gettid));
  leaving_ = left != ::getpid() ? left : 0; // that of the process stays
  give_baton(next);
}

void scheduler::end_program() noexcept {
  ++inside;
  thread& mine = *me;
  step(at::thread_end);
  for (auto const& t : threads_) {
    if (t->program != mine.program) continue;
    t->has_ended = true;
    wake_all(need::thread, t.get());
  }
  wake_all(need::program, nullptr);
  thread& next = next_to_run();
  note_turn(next);
  give_baton(next);
  for (;;) take_baton(mine); // no thread gives it
}

// ---- reports --------------------------------------------------------------------------------------------

void scheduler::holds(void const* what) noexcept { held_.push_back({what, me->number}); }

void scheduler::lets_go(void const* what) noexcept {
  auto const last = std::find_if(held_.rbegin(), held_.rend(), [&](held const& h) { return h.what == what; });
  if (last != held_.rend()) held_.erase(std::next(last).base());
}

int scheduler::number_of(void const* what) noexcept {
  auto const found = std::find(known_.begin(), known_.end(), what);
  if (found == known_.end()) known_.push_back(what);
  return static_cast<int>(std::find(known_.begin(), known_.end(), what) - known_.begin());
}

void scheduler::report_waiting(char const* title) noexcept {
  std::size_t used = 0;
  std::span<char> const why = record_.why;
  append(why, used, "%s\n", title);
  for (auto const& t : threads_) {
    if (t->has_ended) continue;
    append(why, used, "  T%d at %s", t->number, name_of(t->doing));
    if (t->waits == need::thread) {
      append(why, used, ", waits for the end of T%d", static_cast<thread const*>(t->what)->number);
    } else if (t->waits != need::nothing && t->what != nullptr) {
      append(why, used, ", waits for %s #%d", needs[static_cast<std::size_t>(t->waits)], number_of(t->what));
      for (held const& h : held_)
        if (h.what == t->what) append(why, used, ", held by T%d", h.thread);
    } else if (t->waits != need::nothing && t->waits_in != nullptr) {
      append(why, used, ", waits for %s", t->waits_in);
    } else if (t->waits != need::nothing) {
      append(why, used, ", waits for %s", needs[static_cast<std::size_t>(t->waits)]);
    }
    if (t->waits != need::nothing && t->until != never)
      append(why, used, ", until %.6f s", static_cast<double>(t->until - begin_) / 1e9);
    for (held const& h : held_)
      if (h.thread == t->number) append(why, used, ", holds #%d", number_of(h.what));
    append(why, used, "\n");
  }
}

void scheduler::end(run_end how, char const* why) noexcept {
  ++inside;
  record_.now = now - begin_;
  if (*why != '\0') std::snprintf(record_.why, sizeof record_.why, "%s\n", why);
  record_.end = how;
  if (on_end != nullptr) on_end(record_);
  ::_exit(0);
}

} // namespace unio::testing::threads
