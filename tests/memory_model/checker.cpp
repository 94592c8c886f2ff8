// tests/memory_model/checker.cpp: the explorer. See the header.

#include "memory_model/checker.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>

namespace memory_model {

namespace {

constexpr std::size_t stack_size = 64 * 1024;
constexpr int the_clock = most_threads - 1;
constexpr std::int64_t first_moment = 1'000'000'000;

using threads_set = std::uint8_t;
constexpr threads_set only(int t) noexcept { return static_cast<threads_set>(1u << t); }

bool acquires(std::memory_order o) noexcept {
  return o == std::memory_order_acquire || o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}
bool releases(std::memory_order o) noexcept {
  return o == std::memory_order_release || o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}

char const* name_of(std::memory_order o) noexcept {
  switch (o) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

char const* name_of(action a) noexcept {
  constexpr char const* names[] = {"load", "store", "exchange",   "compare_exchange",
                                   "wait", "wake",  "expire",     "kernel",
                                   "spin", "dies",  "time passes"};
  return names[static_cast<std::size_t>(a)];
}

} // namespace

void vector_clock::join(vector_clock const& other) noexcept {
  for (std::size_t i = 0; i != most_threads; ++i) at[i] = std::max(at[i], other.at[i]);
}

void view::join(view const& other) noexcept {
  for (std::size_t i = 0; i != most_locations; ++i) oldest[i] = std::max(oldest[i], other.oldest[i]);
  before.join(other.before);
}

// ── the state of an execution ──────────────────────────────────────────────────────────────────────────────

class explorer {
 public:
  explicit explorer(options const& o) : o_(o) {}
  report run(std::function<void(world&)> const& make);

  // for the threads
  std::uint64_t load(operation op);
  void store(operation op);
  std::uint64_t exchange(operation op, detail::change how, std::uint64_t mask);
  bool compare_exchange(operation op, std::uint64_t& expected);
  void wait(operation op, std::uint64_t seen, std::int64_t until_ns, bool may_expire);
  int wake(operation op, int how_many);
  void kernel(operation op);
  void spin();
  void note_access(detail::plain_history& h, bool writes, std::uint32_t line);
  void fail(std::string what);
  operation prepare(action what, bool writes, std::uint8_t at, std::memory_order o, std::uint32_t line);

  std::uint8_t new_location(void const* object, std::uint64_t value);

  struct stored {
    std::uint64_t value;
    view released;
  };
  struct location {
    void const* object = nullptr;
    char const* name = "";
    std::vector<stored> stores; // in modification order
    std::size_t newest_seq_cst = 0;
    unsigned changes = 0; // of its value
  };
  enum class status : std::uint8_t { none, ready, asleep, ended, dead };
  struct thread_state {
    status is = status::none;
    std::function<void()> body;
    operation next;
    view sees;
    std::int64_t now = first_moment;
    std::int64_t until = 0;
    bool may_expire = false;
    std::uint8_t last_location = 0;
    unsigned last_changes = 0;
    bool may_die = false;
    bool is_late = false;
    operation to_do; // if it is late
  };
  struct death {
    int victim;
    std::function<void()> then;
    bool has_come = false;
  };

  std::array<thread_state, most_threads> threads;
  int threads_count = 0;
  std::vector<death> deaths;
  unsigned deaths_so_far = 0;
  std::vector<location> locations;
  std::size_t locations_count = 0;
  std::vector<std::function<void()>> at_end;
  kernel_locks* locks = nullptr;
  view lock_view;
  int running = -1; // the thread, or −1: none of them

 private:
  // fibers
  struct fiber {
    ucontext_t context;
    jmp_buf at;
    std::unique_ptr<std::byte[]> stack;
    bool is_new = true;
    explorer* of = nullptr;
    int number = 0;
  };
  static void begin_fiber(unsigned high, unsigned low);
  void go_on(int t);
  void pause();
  void announce(operation const& op);

  // the search
  struct node {
    bool is_choice = false;
    std::uint8_t chosen = 0;
    std::uint8_t count = 0; // of a choice
    threads_set enabled = 0;
    threads_set wanted = 0; // to be tried
    threads_set done = 0;   // tried
    threads_set asleep = 0; // nothing new would come of it
    int last = -1;          // which ran before
    int preemptions = 0;    // before
  };
  [[nodiscard]] bool is_preemption(node const& n) const {
    return n.last >= 0 && n.chosen < threads_count && n.chosen != n.last && (n.enabled & only(n.last)) != 0;
  }
  [[nodiscard]] bool may_come(std::size_t i) const;
  [[nodiscard]] bool is_reduced() const { return o_.reduction && o_.preemptions < 0; }
  unsigned choose(std::size_t n);
  void run_once(std::function<void(world&)> const& make);
  void clear();
  bool next_path();
  threads_set enabled_threads(bool& stalled, bool& unfinished) const;
  bool add_node(threads_set enabled, bool stalled);
  void perform(int t);
  void let_die(death& d);
  void let_time_pass();

  // which operations depend on each other, and what happened in which order (of the execution, not of the
  // memory model)
  struct access {
    std::uint8_t at;
    bool writes;
  };
  struct accesses {
    std::array<access, 4> of{};
    std::size_t n = 0;
    void add(std::uint8_t at, bool writes) { of[n++] = {at, writes}; }
    [[nodiscard]] auto begin() const { return of.begin(); }
    [[nodiscard]] auto end() const { return of.begin() + static_cast<std::ptrdiff_t>(n); }
  };
  struct event {
    int thread = -1;
    std::size_t in_node = 0;
    std::size_t number = 0; // in events_
    vector_clock clock;
    [[nodiscard]] bool is_before(vector_clock const& other) const {
      return other.at[static_cast<std::size_t>(thread)] >= clock.at[static_cast<std::size_t>(thread)];
    }
  };
  struct access_history {
    event last_write;
    std::array<event, most_threads> reads;
  };
  static constexpr std::uint8_t life_of(int t) {
    return static_cast<std::uint8_t>(static_cast<int>(most_locations) + t);
  }
  [[nodiscard]] accesses accesses_of(int t) const;
  static bool are_dependent(accesses const& a, accesses const& b);
  [[nodiscard]] vector_clock clock_of_next(int t, accesses const& a) const;
  void note_event(int t, accesses const& a, std::size_t in_node);
  void find_races(int t, accesses const& a);
  void find_races_of_deaths();
  void add_race(int t, event const& e, vector_clock const& clock);

  void note(operation const& op, std::uint64_t value, std::string const& more = {});
  void note_store(operation const& op);

  options o_;
  std::array<fiber, most_threads> fibers_;
  jmp_buf main_;
  std::vector<node> path_;
  std::size_t depth_ = 0;
  std::vector<access_history> history_ = std::vector<access_history>(most_locations + most_threads);
  std::array<vector_clock, most_threads> clocks_;
  std::vector<event> events_; // since time has passed last
  threads_set next_asleep_ = 0;
  threads_set woken_ = 0;
  int last_ = -1;
  std::array<bool, most_locations> is_mixed_{}; // stored to outside S, in some execution
  bool begins_anew_ = false;                    // since that was learnt
  unsigned steps_ = 0;
  unsigned stalls_ = 0;
  bool failed_ = false;
  struct traced {
    operation op;
    std::uint64_t value;
    std::string more;
  };
  std::vector<traced> trace_;
  report report_;
};

namespace {
explorer* current = nullptr;
}

// ── fibers: ucontext to begin, setjmp to switch (it makes no system call) ──────────────────────────────────

void explorer::begin_fiber(unsigned high, unsigned low) {
  auto& f = *reinterpret_cast<fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
  for (;;) {
    f.of->threads[static_cast<std::size_t>(f.number)].body();
    f.of->threads[static_cast<std::size_t>(f.number)].is = status::ended;
    f.of->pause();
  }
}

[[gnu::noinline]] void explorer::go_on(int t) {
  fiber& f = fibers_[static_cast<std::size_t>(t)];
  running = t;
  if (_setjmp(main_) == 0) {
    if (!f.is_new) _longjmp(f.at, 1);
    if (f.stack == nullptr) f.stack = std::make_unique<std::byte[]>(stack_size);
    ::getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = stack_size;
    f.context.uc_link = nullptr;
    f.of = this;
    f.number = t;
    f.is_new = false;
    auto const address = reinterpret_cast<std::uintptr_t>(&f);
    ::makecontext(&f.context, reinterpret_cast<void (*)()>(&begin_fiber), 2,
                  static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
    ::setcontext(&f.context);
  }
  running = -1;
}

[[gnu::noinline]] void explorer::pause() {
  if (_setjmp(fibers_[static_cast<std::size_t>(running)].at) == 0) _longjmp(main_, 1);
}

void explorer::announce(operation const& op) {
  threads[static_cast<std::size_t>(running)].next = op;
  pause();
}

void explorer::fail(std::string what) {
  if (!failed_) report_.error = std::move(what);
  failed_ = true;
  if (running >= 0) pause(); // and is not resumed
}

// ── the memory model ───────────────────────────────────────────────────────────────────────────────────────

operation explorer::prepare(action what, bool writes, std::uint8_t at, std::memory_order o,
                            std::uint32_t line) {
  return {.what = what,
          .writes = writes,
          .location = at,
          .order = o,
          .line = line,
          .thread = running,
          .name = locations[at].name};
}

void explorer::note(operation const& op, std::uint64_t value, std::string const& more) {
  trace_.push_back({op, value, more});
}

void explorer::note_store(operation const& op) {
  if (op.order == std::memory_order_seq_cst || is_mixed_[op.location]) return;
  is_mixed_[op.location] = true;
  begins_anew_ = true;
}

std::uint64_t explorer::load(operation op) {
  if (running < 0) return locations[op.location].stores.back().value; // a check at the end
  if (o_.mutant != nullptr) o_.mutant(op);
  announce(op);
  thread_state& t = threads[static_cast<std::size_t>(running)];
  location& l = locations[op.location];
  bool const in_s = op.order == std::memory_order_seq_cst;
  std::size_t oldest = t.sees.oldest[op.location];
  if (in_s) oldest = std::max(oldest, l.newest_seq_cst);
  std::size_t const newest = l.stores.size() - 1;
  std::size_t const which = newest - choose(newest - oldest + 1);
  stored const& s = l.stores[which];
  t.sees.oldest[op.location] = static_cast<std::uint16_t>(which);
  if (acquires(op.order)) t.sees.join(s.released);
  if (in_s) l.newest_seq_cst = std::max(l.newest_seq_cst, which);
  t.last_location = op.location;
  t.last_changes = which == newest ? l.changes : l.changes - 1;
  note(op, s.value, which == newest ? "" : " (old)");
  return s.value;
}

void explorer::store(operation op) {
  if (o_.mutant != nullptr) o_.mutant(op);
  announce(op);
  thread_state& t = threads[static_cast<std::size_t>(running)];
  location& l = locations[op.location];
  if (t.sees.oldest[op.location] + 1u != l.stores.size()) ++report_.unordered;
  if (l.stores.back().value != op.desired) ++l.changes;
  t.sees.oldest[op.location] = static_cast<std::uint16_t>(l.stores.size());
  if (op.order == std::memory_order_seq_cst) l.newest_seq_cst = l.stores.size();
  note_store(op);
  l.stores.push_back({op.desired, releases(op.order) ? t.sees : view()});
  note(op, op.desired);
}

std::uint64_t explorer::exchange(operation op, detail::change how, std::uint64_t mask) {
  if (o_.mutant != nullptr && !op.is_late) o_.mutant(op);
  if (op.is_late && !threads[static_cast<std::size_t>(running)].is_late) {
    thread_state& late = threads[static_cast<std::size_t>(running)];
    late.is_late = true;
    late.to_do = op;
    return locations[op.location].stores.back().value;
  }
  announce(op);
  thread_state& t = threads[static_cast<std::size_t>(running)];
  location& l = locations[op.location];
  std::size_t const newest = l.stores.size() - 1;
  stored const& from = l.stores[newest];
  std::uint64_t const before = from.value;
  if (acquires(op.order)) t.sees.join(from.released);
  view released = from.released;
  std::uint64_t after = op.desired;
  if (how == detail::change::add) after = (before + op.desired) & mask;
  if (how == detail::change::set_bits) after = before | op.desired;
  if (how == detail::change::and_bits) after = before & op.desired;
  t.sees.oldest[op.location] = static_cast<std::uint16_t>(newest + 1);
  if (op.order == std::memory_order_seq_cst) l.newest_seq_cst = newest + 1;
  if (releases(op.order)) released.join(t.sees);
  if (after != before) ++l.changes;
  note_store(op);
  l.stores.push_back({after, released});
  t.last_location = op.location;
  t.last_changes = l.changes;
  note(op, after);
  return before;
}

bool explorer::compare_exchange(operation op, std::uint64_t& expected) {
  op.expected = expected;
  if (o_.mutant != nullptr) o_.mutant(op);
  announce(op);
  thread_state& t = threads[static_cast<std::size_t>(running)];
  location& l = locations[op.location];
  bool const in_s = op.order == std::memory_order_seq_cst;
  bool const fails_in_s = in_s && !op.fails_relaxed;
  std::size_t const newest = l.stores.size() - 1;
  std::size_t oldest = t.sees.oldest[op.location];
  if (fails_in_s) oldest = std::max(oldest, l.newest_seq_cst);
  std::array<std::size_t, 64> readable;
  std::size_t n = 0;
  for (std::size_t i = newest + 1; i-- != oldest;)
    if ((i == newest || l.stores[i].value != expected) && n != readable.size()) readable[n++] = i;
  std::size_t const which = readable[choose(n)];
  stored const& from = l.stores[which];
  t.last_location = op.location;
  if (from.value != expected) {
    expected = from.value;
    t.sees.oldest[op.location] = static_cast<std::uint16_t>(which);
    if (acquires(op.order) && !op.fails_relaxed) t.sees.join(from.released);
    if (fails_in_s) l.newest_seq_cst = std::max(l.newest_seq_cst, which);
    t.last_changes = which == newest ? l.changes : l.changes - 1;
    note(op, from.value, which == newest ? " failed" : " failed (old)");
    return false;
  }
  if (acquires(op.order)) t.sees.join(from.released);
  view released = from.released;
  t.sees.oldest[op.location] = static_cast<std::uint16_t>(newest + 1);
  if (in_s) l.newest_seq_cst = newest + 1;
  if (releases(op.order)) released.join(t.sees);
  if (from.value != op.desired) ++l.changes;
  note_store(op);
  l.stores.push_back({op.desired, released});
  t.last_changes = l.changes;
  note(op, op.desired);
  return true;
}

void explorer::note_access(detail::plain_history& h, bool writes, std::uint32_t line) {
  if (running < 0) return;
  vector_clock const& before = threads[static_cast<std::size_t>(running)].sees.before;
  for (std::size_t i = 0; i != most_threads; ++i) {
    if (static_cast<int>(i) == running) continue;
    if (h.writes.at[i] > before.at[i] || (writes && h.reads.at[i] > before.at[i]))
      fail("data race: thread " + std::to_string(running) + ", line " + std::to_string(line) +
           ", with thread " + std::to_string(i));
  }
  auto const me = static_cast<std::size_t>(running);
  (writes ? h.writes : h.reads).at[me] =
      static_cast<std::uint16_t>(before.at[me] + 1); // until its next operation
}

// ── the kernel ─────────────────────────────────────────────────────────────────────────────────────────────

void explorer::wait(operation op, std::uint64_t seen, std::int64_t until_ns, bool may_expire) {
  if (may_expire && is_reduced()) fail("the reduction does not know of sleepers that may expire");
  announce(op);
  thread_state& t = threads[static_cast<std::size_t>(running)];
  note(op, seen);
  location const& l = locations[op.location];
  t.sees.oldest[op.location] =
      static_cast<std::uint16_t>(l.stores.size() - 1); // the kernel has read it for this thread
  if (l.stores.back().value != seen) return;
  t.is = status::asleep;
  t.until = until_ns;
  t.may_expire = may_expire;
  op.what = action::expire;
  announce(op);
  if (t.is == status::asleep) { // it was not woken
    t.now = std::max(t.now, until_ns);
    note(op, 0);
  } else if (may_expire && choose(2) == 1) {
    t.now = std::max(t.now, until_ns);
  }
  t.is = status::ready;
}

int explorer::wake(operation op, int how_many) {
  op.desired = static_cast<std::uint64_t>(how_many);
  if (o_.mutant != nullptr) o_.mutant(op);
  how_many = static_cast<int>(op.desired);
  announce(op);
  int woken = 0;
  while (woken != how_many) {
    std::array<int, most_threads> sleepers;
    std::size_t n = 0;
    for (int i = 0; i != threads_count; ++i) {
      thread_state const& t = threads[static_cast<std::size_t>(i)];
      if (t.is == status::asleep && t.next.location == op.location) sleepers[n++] = i;
    }
    if (n == 0) break;
    int const who = sleepers[how_many >= static_cast<int>(n) ? 0 : choose(n)];
    threads[static_cast<std::size_t>(who)].is = status::ready;
    woken_ |= only(who);
    ++woken;
  }
  note(op, static_cast<std::uint64_t>(woken));
  if (thread_state& t = threads[static_cast<std::size_t>(running)]; t.is_late) {
    (void)exchange(t.to_do, detail::change::add, ~std::uint64_t{0});
    t.is_late = false;
  }
  return woken;
}

void explorer::kernel(operation op) {
  announce(op);
  note(op, 0);
}

void explorer::spin() {
  thread_state const& t = threads[static_cast<std::size_t>(running)];
  announce(prepare(action::spin, false, t.last_location, std::memory_order_relaxed, 0));
  // In the end it sees what is new.
  threads[static_cast<std::size_t>(running)].sees.oldest[t.last_location] =
      static_cast<std::uint16_t>(locations[t.last_location].stores.size() - 1);
}

void explorer::let_die(death& d) {
  thread_state& t = threads[static_cast<std::size_t>(d.victim)];
  operation op{.what = action::kill, .thread = d.victim};
  note(op, 0);
  d.has_come = true;
  ++deaths_so_far;
  t.is = status::dead;
  fibers_[static_cast<std::size_t>(d.victim)].is_new = true; // whatever is on its stack
  if (locks != nullptr) {
    bool any = false;
    for (int& holder : locks->holders_)
      if (holder == d.victim) holder = -1, any = true;
    if (any) {
      lock_view.join(t.sees);
      ++lock_view.before.at[static_cast<std::size_t>(d.victim)]; // and what it did since its last operation
    }
  }
  if (d.then) d.then();
}

void explorer::let_time_pass() {
  std::int64_t until = 0;
  for (int i = 0; i != threads_count; ++i) {
    thread_state const& t = threads[static_cast<std::size_t>(i)];
    if (t.is == status::asleep) until = std::max(until, t.until);
  }
  note({.what = action::time, .thread = the_clock}, static_cast<std::uint64_t>(until - first_moment));
  if (deaths_so_far == 0 && !o_.may_stall) {
    failed_ = true;
    report_.error = "a sleeper was forgotten: nobody died, and nobody else can do anything";
    return;
  }
  if (++stalls_ == 1) ++report_.stalls;
  if (stalls_ > o_.most_stalls) {
    failed_ = true;
    report_.error = "stuck: time does not help";
    return;
  }
  for (int i = 0; i != threads_count; ++i) {
    thread_state& t = threads[static_cast<std::size_t>(i)];
    if (t.is == status::ended || t.is == status::dead) continue;
    t.now = std::max(t.now, until);
    if (t.is == status::asleep) {
      t.is = status::ready;
      woken_ |= only(i);
    }
  }
}

// ── what depends on what ───────────────────────────────────────────────────────────────────────────────────

explorer::accesses explorer::accesses_of(int t) const {
  accesses a;
  if (t >= threads_count) {
    death const& d = deaths[static_cast<std::size_t>(t - threads_count)];
    thread_state const& victim = threads[static_cast<std::size_t>(d.victim)];
    a.add(life_of(d.victim), true);
    if (locks != nullptr) a.add(locks->at_, true);
    if (victim.is == status::asleep) a.add(victim.next.location, true);
    return a;
  }
  thread_state const& s = threads[static_cast<std::size_t>(t)];
  operation const& op = s.next;
  // Loads in S of what others store outside it depend on each other: one that sees more lets the next see no
  // less.
  bool const in_s = op.what == action::load && op.order == std::memory_order_seq_cst;
  a.add(op.location, op.writes || (in_s && is_mixed_[op.location]));
  if (s.may_die) a.add(life_of(t), false);
  return a;
}

bool explorer::are_dependent(accesses const& a, accesses const& b) {
  for (access const& x : a)
    for (access const& y : b)
      if (x.at == y.at && (x.writes || y.writes)) return true;
  return false;
}

vector_clock explorer::clock_of_next(int t, accesses const& a) const {
  vector_clock clock = clocks_[static_cast<std::size_t>(t)];
  for (access const& x : a) {
    access_history const& h = history_[x.at];
    if (h.last_write.thread >= 0) clock.join(h.last_write.clock);
    for (event const& r : h.reads)
      if (x.writes && r.thread >= 0) clock.join(r.clock);
  }
  return clock;
}

void explorer::note_event(int t, accesses const& a, std::size_t in_node) {
  auto const me = static_cast<std::size_t>(t);
  vector_clock& clock = clocks_[me];
  clock = clock_of_next(t, a);
  ++clock.at[me];
  event const e{.thread = t, .in_node = in_node, .number = events_.size(), .clock = clock};
  events_.push_back(e);
  for (access const& x : a) {
    access_history& h = history_[x.at];
    if (x.writes) {
      h.last_write = e;
      for (event& r : h.reads) r.thread = -1;
    } else {
      h.reads[me] = e;
    }
  }
}

// What `t` does next, against what has been done: where the other order is possible it is tried, too.
void explorer::find_races(int t, accesses const& a) {
  vector_clock const clock = clock_of_next(t, a);
  for (access const& x : a) {
    access_history const& h = history_[x.at];
    add_race(t, h.last_write, clock);
    for (event const& r : h.reads)
      if (x.writes) add_race(t, r, clock);
  }
}

// Deaths never come by themselves.
void explorer::find_races_of_deaths() {
  for (std::size_t i = 0; i != deaths.size(); ++i) {
    if (!may_come(i)) continue;
    int const t = threads_count + static_cast<int>(i);
    find_races(t, accesses_of(t));
  }
}

// Some thread that can begin what happened since, without `e` and what depends on it, is tried before `e`
// (the source sets of Abdulla, Aronis, Jonsson, Sagonas, POPL 2014).
void explorer::add_race(int t, event const& e, vector_clock const& clock) {
  if (e.thread < 0 || e.thread == t || e.is_before(clocks_[static_cast<std::size_t>(t)])) return;
  threads_set seen = 0;
  threads_set first = 0;
  std::array<event const*, 512> since;
  std::size_t n = 0;
  auto const consider = [&](int thread, vector_clock const& c) {
    if ((seen & only(thread)) == 0 &&
        std::none_of(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(n),
                     [&](event const* g) { return g->is_before(c); }))
      first |= only(thread);
    seen |= only(thread);
  };
  for (std::size_t i = e.number + 1; i < events_.size(); ++i) {
    event const& f = events_[i];
    if (e.is_before(f.clock)) continue;
    consider(f.thread, f.clock);
    if (n != since.size()) since[n++] = &f;
  }
  consider(t, clock);
  node& at = path_[e.in_node];
  if ((first & (at.wanted | at.asleep)) != 0) return;
  threads_set possible = first & at.enabled;
  if (possible == 0 && t >= threads_count) { // only after the victim's next step, which looks
    int const victim = deaths[static_cast<std::size_t>(t - threads_count)].victim;
    if (e.thread == victim) return;
    possible = at.enabled & only(victim);
  }
  at.wanted |= possible != 0 ? only(std::countr_zero(possible)) : at.enabled;
}

// ── the search ─────────────────────────────────────────────────────────────────────────────────────────────

unsigned explorer::choose(std::size_t n) {
  if (n < 2) return 0;
  if (depth_ == path_.size()) path_.push_back({.is_choice = true, .count = static_cast<std::uint8_t>(n)});
  return path_[depth_++].chosen;
}

threads_set explorer::enabled_threads(bool& stalled, bool& unfinished) const {
  threads_set r = 0;
  bool sleeps = false;
  unfinished = false;
  for (int i = 0; i != threads_count; ++i) {
    thread_state const& t = threads[static_cast<std::size_t>(i)];
    if (t.is == status::ended || t.is == status::dead) continue;
    unfinished = true;
    sleeps |= t.is == status::asleep;
    if (t.is == status::asleep && !t.may_expire) continue;
    if (t.next.what == action::spin && t.is == status::ready &&
        locations[t.next.location].changes == t.last_changes)
      continue;
    r |= only(i);
  }
  stalled = r == 0;
  if (stalled && sleeps) r |= only(the_clock);
  for (std::size_t i = 0; i != deaths.size(); ++i) {
    thread_state const& t = threads[static_cast<std::size_t>(deaths[i].victim)];
    if (may_come(i) && t.is != status::ended && (t.is == status::asleep || t.next.writes))
      r |= only(threads_count + static_cast<int>(i));
  }
  return r;
}

bool explorer::may_come(std::size_t i) const {
  return !deaths[i].has_come && (i == 0 || deaths[i - 1].has_come);
}

// False: nothing new would come of it.
bool explorer::add_node(threads_set enabled, bool stalled) {
  node n{.enabled = enabled, .asleep = next_asleep_, .last = last_};
  bool const bounded = o_.preemptions >= 0;
  bool const reduced = is_reduced();
  if (depth_ != 0 && bounded) {
    std::size_t i = depth_;
    while (i != 0 && path_[i - 1].is_choice) --i;
    if (i != 0) n.preemptions = path_[i - 1].preemptions + (is_preemption(path_[i - 1]) ? 1 : 0);
  }
  if (reduced) {
    find_races_of_deaths();
  } else {
    n.asleep = 0;
  }
  threads_set const may = enabled & static_cast<threads_set>(~n.asleep);
  if (may == 0) return false;
  int const first =
      last_ >= 0 && (may & only(last_)) != 0 && last_ < threads_count ? last_ : std::countr_zero(may);
  n.wanted = reduced && !stalled ? only(first) : may;
  if (bounded && last_ >= 0 && last_ < threads_count && (enabled & only(last_)) != 0 &&
      n.preemptions >= o_.preemptions) {
    // Only death may interrupt it.
    threads_set const mortal = static_cast<threads_set>(~(only(threads_count) - 1) & ~only(the_clock));
    n.wanted &= static_cast<threads_set>(only(last_) | mortal);
  }
  n.chosen = static_cast<std::uint8_t>(first);
  path_.push_back(n);
  return true;
}

void explorer::perform(int t) {
  if (t == the_clock) {
    let_time_pass();
  } else if (t >= threads_count) {
    let_die(deaths[static_cast<std::size_t>(t - threads_count)]);
  } else {
    vector_clock& before = threads[static_cast<std::size_t>(t)].sees.before;
    ++before.at[static_cast<std::size_t>(t)];
    go_on(t);
  }
}

void explorer::run_once(std::function<void(world&)> const& make) {
  clear();
  world w(*this);
  make(w);
  for (int i = 0; i != threads_count && !failed_; ++i) go_on(i); // to its first operation
  while (!failed_) {
    bool stalled = false;
    bool unfinished = false;
    threads_set const enabled = enabled_threads(stalled, unfinished);
    if (!unfinished) break;
    if (enabled == 0) {
      report_.error = "deadlock";
      failed_ = true;
      return;
    }
    if (++steps_ > o_.most_steps) {
      ++report_.pruned;
      return;
    }
    if (depth_ == path_.size() && !add_node(enabled, stalled)) {
      ++report_.redundant;
      return;
    }
    std::size_t const at = depth_++;
    int const t = path_[at].chosen;
    threads_set const candidates = path_[at].asleep | path_[at].done;
    woken_ = 0;
    accesses const a = t == the_clock ? accesses() : accesses_of(t);
    std::array<accesses, most_threads> others;
    for (int i = 0; i != threads_count + static_cast<int>(deaths.size()); ++i)
      if ((candidates & only(i)) != 0) others[static_cast<std::size_t>(i)] = accesses_of(i);
    if (at + 1 == path_.size() && is_reduced() && t != the_clock &&
        (t >= threads_count || threads[static_cast<std::size_t>(t)].next.what != action::spin))
      find_races(t, a);
    if (is_reduced() && t >= threads_count && t != the_clock) // the victim first, too
      path_[at].wanted |= static_cast<threads_set>(
          enabled & only(deaths[static_cast<std::size_t>(t - threads_count)].victim));
    perform(t);
    if (failed_) return;
    // in the order of the execution
    threads_set dependent = 0;
    if (t == the_clock) {
      vector_clock all;
      for (vector_clock const& c : clocks_) all.join(c);
      clocks_.fill(all);
      events_.clear();
      for (access_history& h : history_) {
        h.last_write.thread = -1;
        for (event& r : h.reads) r.thread = -1;
      }
      dependent = 0xff;
    } else {
      if (is_reduced()) note_event(t, a, at);
      for (int i = 0; i != threads_count; ++i) {
        if ((woken_ & only(i)) == 0) continue;
        clocks_[static_cast<std::size_t>(i)].join(clocks_[static_cast<std::size_t>(t)]);
        if (is_reduced()) history_[life_of(i)].reads[static_cast<std::size_t>(t)] = events_.back();
        for (std::size_t d = 0; d != deaths.size(); ++d)
          if (deaths[d].victim == i) dependent |= only(threads_count + static_cast<int>(d));
      }
      for (int i = 0; i != threads_count + static_cast<int>(deaths.size()); ++i)
        if ((candidates & only(i)) != 0 && are_dependent(others[static_cast<std::size_t>(i)], a))
          dependent |= only(i);
    }
    next_asleep_ = candidates & static_cast<threads_set>(~dependent) & static_cast<threads_set>(~only(t));
    for (int i = 0; i != threads_count && !failed_; ++i)
      if ((woken_ & only(i)) != 0) go_on(i); // to its next operation
    // A sleeping thread is not interrupted, even if it may give up.
    if (t < threads_count) last_ = threads[static_cast<std::size_t>(t)].is == status::asleep ? -1 : t;
  }
  if (failed_) return;
  if (is_reduced()) find_races_of_deaths();
  ++report_.executions;
  for (auto const& check : at_end) check();
}

// The next combination of choices. False: there is none.
bool explorer::next_path() {
  while (!path_.empty()) {
    node& n = path_.back();
    if (n.is_choice) {
      if (++n.chosen != n.count) return true;
    } else {
      n.done |= only(n.chosen);
      threads_set const left = n.wanted & static_cast<threads_set>(~(n.done | n.asleep));
      if (left != 0) {
        n.chosen = static_cast<std::uint8_t>(std::countr_zero(left));
        return true;
      }
    }
    path_.pop_back();
  }
  return false;
}

void explorer::clear() {
  for (int i = 0; i != threads_count; ++i) {
    thread_state& t = threads[static_cast<std::size_t>(i)];
    if (t.is != status::ended) fibers_[static_cast<std::size_t>(i)].is_new = true;
    t = thread_state();
  }
  threads_count = 0;
  deaths.clear();
  deaths_so_far = 0;
  locations_count = 0;
  at_end.clear();
  locks = nullptr;
  lock_view = view();
  for (access_history& h : history_) {
    h.last_write.thread = -1;
    for (event& r : h.reads) r.thread = -1;
  }
  clocks_.fill(vector_clock());
  events_.clear();
  next_asleep_ = 0;
  depth_ = 0;
  last_ = -1;
  steps_ = 0;
  stalls_ = 0;
  trace_.clear();
}

report explorer::run(std::function<void(world&)> const& make) {
  current = this;
  locations.resize(most_locations);
  for (;;) {
    run_once(make);
    if (failed_) break;
    if (std::exchange(begins_anew_, false)) {
      path_.clear();
      report_ = report();
      continue;
    }
    if (!next_path() || report_.executions + report_.redundant + report_.pruned >= o_.most_executions) break;
  }
  report_.is_complete = !failed_ && path_.empty() && report_.pruned == 0;
  if (failed_) {
    for (traced const& l : trace_) {
      char text[200];
      std::snprintf(text, sizeof text, "  thread %d  line %-4u %-8s %-17s %-8s %#llx%s\n", l.op.thread,
                    l.op.line, l.op.name, name_of(l.op.what), name_of(l.op.order),
                    static_cast<unsigned long long>(l.value), l.more.c_str());
      report_.how += text;
    }
  }
  clear();
  current = nullptr;
  return report_;
}

std::uint8_t explorer::new_location(void const* object, std::uint64_t value) {
  if (locations_count == most_locations) std::abort();
  location& l = locations[locations_count];
  l.object = object;
  l.name = "";
  l.stores.clear();
  l.stores.push_back({value, view()});
  l.newest_seq_cst = 0;
  l.changes = 0;
  return static_cast<std::uint8_t>(locations_count++);
}

// ── the interface ──────────────────────────────────────────────────────────────────────────────────────────

report explore(options const& o, std::function<void(world&)> const& make) {
  auto const e = std::make_unique<explorer>(o);
  return e->run(make);
}

void world::thread(std::function<void()> body) {
  explorer::thread_state& t = e_.threads[static_cast<std::size_t>(e_.threads_count++)];
  t.is = explorer::status::ready;
  t.body = std::move(body);
}
void world::may_die(int victim, std::function<void()> then) {
  e_.threads[static_cast<std::size_t>(victim)].may_die = true;
  e_.deaths.push_back({victim, std::move(then)});
}
void world::at_end(std::function<void()> check) { e_.at_end.push_back(std::move(check)); }
void world::name(void const* object, char const* what) {
  for (explorer::location& l : std::span(e_.locations).first(e_.locations_count))
    if (l.object == object) l.name = what;
}
void world::name_rest(char const* what) {
  for (explorer::location& l : std::span(e_.locations).first(e_.locations_count))
    if (*l.name == '\0') l.name = what;
}
void world::fail(std::string what) { e_.fail(std::move(what)); }
int world::self() const noexcept { return e_.running; }
std::int64_t world::now() const noexcept {
  return e_.running < 0 ? first_moment : e_.threads[static_cast<std::size_t>(e_.running)].now;
}
void world::spin() { e_.spin(); }
unsigned world::deaths() const noexcept { return e_.deaths_so_far; }

namespace detail {

std::uint8_t new_location(void const* object, std::uint64_t value) {
  return current->new_location(object, value);
}
void start_with(std::uint8_t at, std::uint64_t v) { current->locations[at].stores.front().value = v; }
std::uint64_t load(std::uint8_t at, std::memory_order o, std::uint32_t line) {
  return current->load(current->prepare(action::load, false, at, o, line));
}
void store(std::uint8_t at, std::uint64_t v, std::memory_order o, std::uint32_t line) {
  operation op = current->prepare(action::store, true, at, o, line);
  op.desired = v;
  current->store(op);
}
std::uint64_t exchange(std::uint8_t at, change how, std::uint64_t v, std::uint64_t mask, std::memory_order o,
                       std::uint32_t line) {
  operation op = current->prepare(action::exchange, true, at, o, line);
  op.desired = v;
  return current->exchange(op, how, mask);
}
bool compare_exchange(std::uint8_t at, std::uint64_t& expected, std::uint64_t desired, std::memory_order o,
                      bool fails_relaxed, std::uint32_t line) {
  operation op = current->prepare(action::compare_exchange, true, at, o, line);
  op.desired = desired;
  op.fails_relaxed = fails_relaxed;
  return current->compare_exchange(op, expected);
}
void wait(std::uint8_t at, std::uint64_t seen, std::int64_t until_ns, bool may_expire) {
  current->wait(current->prepare(action::wait, true, at, std::memory_order_relaxed, 0), seen, until_ns,
                may_expire);
}
int wake(std::uint8_t at, int how_many) {
  return current->wake(current->prepare(action::wake, true, at, std::memory_order_relaxed, 0), how_many);
}
void note_access(plain_history& h, bool writes, std::uint32_t line) { current->note_access(h, writes, line); }

} // namespace detail

kernel_locks::kernel_locks() : at_(current->new_location(this, 0)) {
  holders_.fill(-1);
  current->locks = this;
}

bool kernel_locks::is_held(int lock) {
  current->kernel(current->prepare(action::kernel, false, at_, std::memory_order_relaxed, 0));
  return holders_[static_cast<std::size_t>(lock)] >= 0;
}

bool kernel_locks::try_hold(int lock) {
  current->kernel(current->prepare(action::kernel, true, at_, std::memory_order_relaxed, 0));
  int& holder = holders_[static_cast<std::size_t>(lock)];
  if (holder >= 0) return false;
  holder = current->running;
  current->threads[static_cast<std::size_t>(current->running)].sees.join(current->lock_view);
  return true;
}

void kernel_locks::let_go(int lock) {
  current->kernel(current->prepare(action::kernel, true, at_, std::memory_order_relaxed, 0));
  holders_[static_cast<std::size_t>(lock)] = -1;
  current->lock_view.join(current->threads[static_cast<std::size_t>(current->running)].sees);
}

} // namespace memory_model
