// check_interleavings, check_late_joiner: real processes that stop at every hook and continue on command
// to, one at a time.
//
// A schedule says which process continues, where several could. Without a choice the one that ran continues
// until it is blocked (asleep, in the kernel, not at a hook) or has ended; choosing another while it could go
// on is a preemption. All schedules with few of those are tried, each from the beginning, with new processes.

#include "crash/harness.hpp"
#include "crash/hook_modes.hpp"
#include "crash/oracle.hpp"
#include "crash/processes.hpp"
#include "crash/worker.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/futex.h>

#include <random>

namespace crash {

namespace {

using namespace std::chrono_literals;
using unio::fs::entity;

// ── processes that stop at hooks ───────────────────────────────────────────────────────────────────────────

struct seat {
  std::atomic<unsigned> arrivals; // at hooks
  std::atomic<unsigned> tokens;   // to continue
  char where[48];
};

seat* my_seat = nullptr;
bool is_let_pass = false; // not yet where it is to be stopped

void sleep_on(std::atomic<unsigned>& word, unsigned seen, timespec const* at_most = nullptr) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, at_most, nullptr, 0);
}
void add_one(std::atomic<unsigned>& word) noexcept {
  ++word;
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void stop_here(char const* name) noexcept {
  if (is_let_pass) return;
  std::strncpy(my_seat->where, name, sizeof my_seat->where - 1);
  unsigned const tokens = my_seat->tokens;
  add_one(my_seat->arrivals);
  while (my_seat->tokens == tokens) sleep_on(my_seat->tokens, tokens);
}

class puppet {
 public:
  enum class state { runs, is_at_hook, is_blocked, has_ended };

  template <class Body>
  puppet(seat& s, Body&& body)
      : seat_(s), process_([&] {
          my_seat = &s;
          on_step(stop_here);
          stop_here("begin");
          body();
        }) {}

  /// Lets it continue, and waits until it is at its next hook, blocked, or has ended.
  void go_on() {
    seen_ = seat_.arrivals;
    state_ = state::runs;
    add_one(seat_.tokens);
    look();
  }
  /// What it does; one that was blocked may have been woken by what another did, and then is not asleep.
  state look() {
    if (state_ == state::is_at_hook || state_ == state::has_ended) return state_;
    if (state_ == state::is_blocked && sleeps()) return state_;
    for (int asleep = 0; asleep != 3;) {
      constexpr timespec a_moment{.tv_sec = 0, .tv_nsec = 100'000};
      if (seat_.arrivals == seen_) sleep_on(seat_.arrivals, seen_, &a_moment);
      if (seat_.arrivals != seen_) return state_ = state::is_at_hook;
      if (process_.is_over()) return state_ = state::has_ended;
      asleep = sleeps() ? asleep + 1 : 0;
    }
    return state_ = state::is_blocked;
  }
  [[nodiscard]] char const* where() const noexcept { return seat_.where; }
  child& process() noexcept { return process_; }

 private:
  // Elsewhere than at a hook. proc_pid_stat(5): the letter after the command's name.
  bool sleeps() const {
    char name[48];
    std::snprintf(name, sizeof name, "/proc/%d/stat", static_cast<int>(process_.pid()));
    std::ifstream file(name);
    std::string line;
    std::getline(file, line);
    std::size_t const at = line.rfind(") ");
    return at != std::string::npos && line[at + 2] == 'S' && seat_.arrivals == seen_;
  }

  seat& seat_;
  unsigned seen_ = 0;
  state state_ = state::runs;
  child process_;
};

// ── one schedule ───────────────────────────────────────────────────────────────────────────────────────────

using line = void (*)(worker&, std::string const& directory, unsigned user);

struct play {
  char const* name;
  std::vector<line> lines;         // of each process
  bool is_from_the_opening = true; // otherwise all have it open before they are stopped: fewer choices
};

struct choice {
  unsigned who;
  unsigned could; // a bit for each
  bool is_free;   // the one before could not continue
};

constexpr std::int64_t patience_ms = 5000;
constexpr unsigned most_choices = 2000;

std::string run(algorithm const& a, play const& p, std::vector<unsigned> const& prefix,
                std::vector<choice>& made) {
  test::temporary_directory const directory;
  struct stage {
    oracle judge;
    seat seats[4];
  };
  shared<stage> const s;
  std::vector<std::unique_ptr<puppet>> all;
  for (unsigned i = 0; i != p.lines.size(); ++i)
    all.push_back(std::make_unique<puppet>(s->seats[i], [&, i] {
      worker w(s->judge, a);
      w.ignore_time(); // it waits for its turn, too
      is_let_pass = !p.is_from_the_opening;
      p.lines[i](w, directory.path(), i);
      w.close();
    }));
  made.clear();
  unsigned now = 0;
  std::int64_t stuck_since = 0;
  std::string where;
  while (s->judge.complaints == 0) {
    unsigned could = 0;
    unsigned ended = 0;
    for (unsigned i = 0; i != all.size(); ++i) {
      auto const what = all[i]->look();
      if (what == puppet::state::is_at_hook) could |= 1u << i;
      if (what == puppet::state::has_ended) ++ended;
    }
    if (ended == all.size()) break;
    if (could == 0) { // asleep, all of them: a timer may help
      if (stuck_since == 0) stuck_since = now_ms();
      if (now_ms() - stuck_since > patience_ms) s->judge.complain("stuck: all wait");
      sleep_us(200);
      continue;
    }
    stuck_since = 0;
    bool const is_free = (could >> now & 1) == 0;
    unsigned who = is_free ? static_cast<unsigned>(std::countr_zero(could)) : now;
    if (made.size() < prefix.size() && (could >> prefix[made.size()] & 1) != 0) who = prefix[made.size()];
    made.push_back({who, could, is_free});
    if (made.size() > most_choices) s->judge.complain("stuck: no end of steps");
    now = who;
    if (where.size() < 3000) where += std::to_string(who) + ":" + all[who]->where() + " ";
    all[who]->go_on();
  }
  for (auto& each : all)
    if (s->judge.complaints == 0 && !each->process().ended_well())
      s->judge.complain("crash: status %#x", static_cast<unsigned>(each->process().status()));
  if (s->judge.complaints == 0) return {};
  return std::string(a.name) + ", " + p.name + ": " + s->judge.verdict() + "\n  after " + where;
}

unsigned preemptions_of(std::vector<choice> const& made, std::size_t before) {
  unsigned n = 0;
  for (std::size_t i = 1; i < before; ++i)
    if (!made[i].is_free && made[i].who != made[i - 1].who) ++n;
  return n;
}

// Depth first: each run adds the schedules that differ from it at one later choice.
std::string run_all(algorithm const& a, play const& p, thoroughness const& t, unsigned& runs) {
  std::vector<std::vector<unsigned>> open{{}};
  unsigned here = 0;
  std::mt19937_64 random(t.seed);
  while (!open.empty() && here != t.most_schedules) {
    // From anywhere, so that a bound on the number leaves neither the early nor the late choices out.
    std::size_t const at = t.one_of == 1 ? open.size() - 1 : random() % open.size();
    std::vector<unsigned> const prefix = std::move(open[at]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    std::vector<choice> made;
    ++here;
    if (std::string wrong = run(a, p, prefix, made); !wrong.empty()) return wrong;
    for (std::size_t i = prefix.size(); i < made.size(); ++i) {
      unsigned const before = preemptions_of(made, i);
      bool const costs = !made[i].is_free && i != 0;
      if (before + (costs ? 1 : 0) > t.preemptions) continue;
      for (unsigned other = 0; other != p.lines.size(); ++other) {
        if (other == made[i].who || (made[i].could >> other & 1) == 0) continue;
        std::vector<unsigned> next;
        for (std::size_t k = 0; k != i; ++k) next.push_back(made[k].who);
        next.push_back(other);
        open.push_back(std::move(next));
      }
    }
  }
  runs += here;
  return {};
}

// ── the plays ──────────────────────────────────────────────────────────────────────────────────────────────

constexpr entity a0(0);
constexpr entity a1(1);
constexpr entity a2(2);

// Inside there is a hook, too: a process that gets in now is seen.
void inside() { stop_here("inside"); }

bool opened(worker& w, std::string const& directory, unsigned user) {
  bool const is_open = w.open(directory, user);
  is_let_pass = false;
  return is_open;
}

void alone_twice(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a0}, how::waits, 0ns, inside);
  w.request(std::array{a0}, how::waits, 0ns, inside);
}
void shared_then_alone(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a0.shared()}, how::waits, 0ns, inside);
  w.request(std::array{a0, a1.shared()}, how::waits, 0ns, inside);
}
void alone_once(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a0}, how::waits, 0ns, inside);
}
void many(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a2, a0, a0, a1}, how::waits, 0ns, inside);
}
void many_backwards(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a0.shared(), a1, a2}, how::waits, 0ns, inside);
}
void tries(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  for (int i = 0; i != 3; ++i) w.request(std::array{a0}, how::tries, 0ns, inside);
}
// Two guards of one object, which exclude each other and do not unlock what the other holds.
void two_guards(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a1}, how::waits, 0ns, [&] {
    auto other = w.mutex()->try_lock(a2);
    if (other) other->unlock();
    inside();
  });
}
void wants_second(worker& w, std::string const& d, unsigned user) {
  if (!opened(w, d, user)) return;
  w.request(std::array{a1}, how::waits, 0ns, inside);
}

std::vector<play> const& plays() {
  static std::vector<play> const all{
      {"an owner and one that shares, who have it open", {shared_then_alone, alone_once}, false},
      {"two owners", {alone_twice, alone_once}},
      {"an owner and one that shares", {shared_then_alone, alone_once}},
      {"many in different orders", {many, many_backwards}},
      {"one that tries", {alone_once, tries}},
      {"two guards", {two_guards, wants_second}},
      {"both share", {shared_then_alone, shared_then_alone}},
  };
  return all;
}
play const three{"three owners", {alone_once, alone_once, shared_then_alone}};

} // namespace

std::string check_interleavings(algorithm const& a, thoroughness const& t, unsigned* cases) {
  unsigned runs = 0;
  for (play const& p : plays())
    if (std::string wrong = run_all(a, p, t, runs); !wrong.empty()) return wrong;
  thoroughness few = t;
  few.preemptions = 1;
  if (std::string wrong = run_all(a, three, few, runs); !wrong.empty()) return wrong;
  if (cases != nullptr) *cases = runs;
  return {};
}

// One has opened the file, but not joined those that use it, when it is removed; another makes a new one.
// Then both must use that.
std::string check_late_joiner(algorithm const& a) {
  test::temporary_directory const directory;
  struct stage {
    oracle judge;
    seat seats[2];
  };
  shared<stage> const s;
  auto const begin = [&](unsigned i) {
    return std::make_unique<puppet>(s->seats[i], [&, i] {
      worker w(s->judge, a);
      w.ignore_time(); // it waits for its turn, too
      alone_once(w, directory.path(), 2 * i);
    });
  };
  auto const advance = [&](puppet& p, char const* where) {
    while (p.look() == puppet::state::is_at_hook && std::strcmp(p.where(), where) != 0) p.go_on();
    return p.look() == puppet::state::is_at_hook;
  };
  auto const early = begin(0);
  if (!advance(*early, "join.opened")) return {}; // nothing that could be removed meanwhile
  std::filesystem::remove(directory / "lock");
  auto const late = begin(1);
  if (!advance(*late, "inside"))
    return std::string(a.name) + ": the second did not get in: " + s->judge.verdict();
  (void)advance(*early, "inside");
  (void)advance(*late, "none");
  (void)advance(*early, "none");
  return s->judge.verdict();
}

} // namespace crash
