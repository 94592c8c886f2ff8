// check_kill_points, check_double_faults, check_pause_points: scenes of two processes, the victim and the
// partner. The victim is killed or stopped at its n-th step, for every n that it has. What then holds is seen
// by the partner, by a newcomer, or both.

#include "crash/harness.hpp"
#include "crash/hook_modes.hpp"
#include "crash/oracle.hpp"
#include "crash/processes.hpp"
#include "crash/worker.hpp"
#include "locks/hooks.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace crash {

namespace {

using namespace std::chrono_literals;
using unio::fs::entity;

constexpr auto grace = 2s;                 // within which everything must be to be had
constexpr std::int64_t patience_ms = 8000; // for a process to end, several graces long

enum class fate { none, killed, stopped };

// What the processes of a scene share.
struct stage {
  oracle judge;
  std::atomic<unsigned> steps; // of the victim
  unsigned last;               // at which its fate is
  fate what;
  unsigned victim; // its number
  char where[48];  // the name of its last step
  std::atomic<bool> partner_is_ready, victim_is_ready, victim_asks, partner_asks, victim_is_gone;
  std::atomic<bool> recoverer_is_ready, recoverer_may_begin;
  std::atomic<bool> partner_has_looked, may_end;
};

stage* current = nullptr;

void count_steps(char const* name) noexcept {
  stage& s = *current;
  if (++s.steps != s.last) return;
  std::strncpy(s.where, name, sizeof s.where - 1);
  if (s.what == fate::killed) {
    s.judge.doom(s.victim);
    ::raise(SIGKILL);
  }
  if (s.what == fate::stopped) ::raise(SIGSTOP);
}

constexpr entity a(0);
constexpr entity b(1);
constexpr entity c(2);

// ── the scenes ─────────────────────────────────────────────────────────────────────────────────────────────

// The victim is in.
void inside() noexcept { unio::fs::hooks::step("inside"); }

struct scene {
  char const* name;
  void (*victim)(stage&, worker&, std::string const& directory);
  void (*partner)(stage&, worker&); // has it open already
};

bool soon(std::atomic<bool> const& flag) {
  return await([&] { return flag.load(); }, patience_ms);
}

// While the victim may be stopped or dead: with a deadline, again and again.
void insist(stage& s, worker& w, std::span<entity const> entities) {
  s.partner_asks = true;
  std::int64_t const due = now_ms() + 500;
  while (!s.victim_is_gone && now_ms() < due)
    if (w.request(entities, how::within, 50ms, [] {})) return;
}

scene const scenes[] = {
    {"alone",
     [](stage&, worker& w, std::string const& directory) {
       if (!w.open(directory, 7)) return;
       w.request(std::array{a, b.shared(), c, a.shared()}, how::waits, 0ns, inside);
       w.request(std::array{b}, how::waits, 0ns, inside);
     },
     [](stage&, worker&) {}},
    {"gets it from its holder",
     [](stage& s, worker& w, std::string const& directory) {
       if (!w.open(directory, 7) || !soon(s.partner_is_ready)) return;
       s.victim_asks = true;
       w.request(std::array{a, b}, how::waits, 0ns, inside);
     },
     [](stage& s, worker& w) {
       w.request(std::array{a, b.shared()}, how::waits, 0ns, [&] {
         s.partner_is_ready = true;
         await([&] { return s.victim_asks || s.victim_is_gone; }, patience_ms);
         await([&] { return s.victim_is_gone.load(); }, 8);
       });
     }},
    {"waits for who shares it",
     [](stage& s, worker& w, std::string const& directory) {
       if (!w.open(directory, 7) || !soon(s.partner_is_ready)) return;
       s.victim_asks = true;
       w.request(std::array{b, c.shared()}, how::waits, 0ns, inside);
     },
     [](stage& s, worker& w) {
       w.request(std::array{b.shared()}, how::waits, 0ns, [&] {
         s.partner_is_ready = true;
         await([&] { return s.victim_asks || s.victim_is_gone; }, patience_ms);
         await([&] { return s.victim_is_gone.load(); }, 8);
       });
     }},
    {"lets go to who waits",
     [](stage& s, worker& w, std::string const& directory) {
       if (!w.open(directory, 7)) return;
       w.request(std::array{a, b.shared()}, how::waits, 0ns, [&] {
         inside();
         s.victim_is_ready = true;
         soon(s.partner_asks);
         sleep_us(8000);
       });
       w.request(std::array{a.shared()}, how::waits, 0ns, inside);
     },
     [](stage& s, worker& w) {
       await([&] { return s.victim_is_ready || s.victim_is_gone; }, patience_ms);
       insist(s, w, std::array{a, b});
     }},
    {"gives up",
     [](stage& s, worker& w, std::string const& directory) {
       if (!w.open(directory, 7) || !soon(s.partner_is_ready)) return;
       s.victim_asks = true;
       w.request(std::array{a, c}, how::tries, 0ns, inside);
       w.request(std::array{a.shared(), c.shared()}, how::within, 5ms, inside);
       w.request(std::array{b, c}, how::spins, 2ms, inside);
     },
     [](stage& s, worker& w) {
       w.request(std::array{c}, how::waits, 0ns, [&] {
         s.partner_is_ready = true;
         await([&] { return s.victim_is_gone.load(); }, 60);
       });
     }},
};

// Undoes what another left, which was killed before.
void recover(stage&, worker& w, std::string const& directory) {
  if (w.mutex() == nullptr && !w.open(directory, 8)) return;
  w.request(std::array{a, b.shared(), c}, how::within, grace, inside);
  w.request(std::array{b}, how::within, grace, inside);
}

// ── what holds afterwards ──────────────────────────────────────────────────────────────────────────────────

// Gets each entity, one after the other; twice, so that a death reported twice is seen.
void get_everything(stage& s, worker& w, unsigned variant, char const* who) {
  for (int round = 0; round != 2; ++round) {
    for (std::uint64_t v = 0; v != 4; ++v) {
      entity const e(v, round == 0 || variant % 2 == 0);
      bool got = false;
      if (variant % 4 == 1) {
        std::int64_t const due = now_ms() + 2000;
        do {
          got = w.request(std::array{e}, how::tries, 0ns, [] {});
          if (!got) sleep_us(200);
        } while (!got && now_ms() < due);
      } else {
        got = w.request(std::array{e}, variant % 4 == 3 ? how::spins : how::within, grace, [] {});
      }
      if (!got) {
        s.judge.complain("stuck: %s did not get entity %u within the grace", who, static_cast<unsigned>(v));
        return;
      }
    }
  }
}

// While something is stopped: never waits longer than said, never gets what the stopped one has.
void look_at_what_is_free(stage& s, worker& w) {
  for (std::uint64_t v = 0; v != 4; ++v) {
    w.request(std::array{entity(v)}, how::tries, 0ns, [] {});
    w.request(std::array{entity(v)}, how::within, 20ms, [] {});
    w.request(std::array{entity(v, false)}, how::spins, 5ms, [] {});
  }
  s.partner_has_looked = true;
}

class performance {
 public:
  performance(algorithm const& what, scene const& which, unsigned variant)
      : algorithm_(what), scene_(which), variant_(variant) {
    current = &*stage_;
  }

  // The partner acts, waits for the victim's end, and then wants everything; unless it is to have left
  // before.
  void begin(bool partner_stays) {
    stage& s = *stage_;
    unsigned const number = s.judge.begin(algorithm_);
    shared<std::atomic<bool>> const opened;
    partner_ = child([&, number] {
      worker w(s.judge, algorithm_, number);
      if (!w.open(directory_.path(), 0)) return;
      *opened = true;
      scene_.partner(s, w);
      if (!partner_stays) return;
      if (!soon(s.victim_is_gone)) return;
      if (s.what == fate::stopped) {
        look_at_what_is_free(s, w);
      } else {
        get_everything(s, w, variant_, "the survivor");
      }
      soon(s.may_end);
    });
    if (!await([&] { return opened->load() || partner_.is_over(); }, patience_ms))
      stage_->judge.complain("stuck: opening");
  }

  // A process dies that holds two entities.
  void die_holding() {
    stage& s = *stage_;
    s.victim = s.judge.begin(algorithm_);
    child v([&] {
      worker w(s.judge, algorithm_, s.victim);
      if (!w.open(directory_.path(), 6)) return;
      w.request(std::array{a, b.shared()}, how::waits, 0ns, [&] {
        s.judge.doom(s.victim);
        ::raise(SIGKILL);
      });
    });
    if (!v.ends_within(patience_ms)) stage_->judge.complain("stuck: the first victim");
  }

  // True if the step was reached.
  bool kill_at(unsigned n, void (*act)(stage&, worker&, std::string const&)) {
    return dies(start(n, fate::killed, act));
  }

  bool dies(child v) {
    if (!v.ends_within(patience_ms)) {
      stage_->judge.complain("stuck: the victim itself");
      v.kill();
    }
    if (!v.was_killed() && !v.ended_well())
      stage_->judge.complain("crash: the victim ended with status %#x", v.status());
    return v.was_killed();
  }

  // A process that has it open when another dies, and then begins to recover.
  void prepare_recoverer() {
    stage& s = *stage_;
    recoverer_number_ = s.judge.begin(algorithm_);
    recoverer_ = child([&] {
      worker w(s.judge, algorithm_, recoverer_number_);
      w.ignore_time();
      if (!w.open(directory_.path(), 8)) return;
      s.recoverer_is_ready = true;
      if (!soon(s.recoverer_may_begin)) return;
      on_step(count_steps);
      recover(s, w, directory_.path());
      w.close();
    });
    soon(s.recoverer_is_ready);
  }
  child start_recoverer(unsigned n, fate what) {
    stage& s = *stage_;
    s.steps = 0;
    s.last = n;
    s.what = what;
    s.victim = recoverer_number_;
    s.recoverer_may_begin = true;
    return std::move(recoverer_);
  }

  bool stop_at(unsigned n) { return stops(start(n, fate::stopped, scene_.victim)); }

  bool stops(child v) {
    stage& s = *stage_;
    if (!await([&] { return v.is_stopped_or_over(); }, patience_ms))
      stage_->judge.complain("stuck: the victim itself");
    s.victim_is_gone = true;
    if (!v.is_stopped()) {
      s.may_end = true;
      return false;
    }
    if (!await([&] { return s.partner_has_looked.load() || partner_.is_over(); }, 4000))
      stage_->judge.complain("stuck: who has a deadline waits for a stopped process");
    v.go_on();
    if (!v.ends_within(patience_ms)) stage_->judge.complain("stuck: the victim, which goes on");
    s.may_end = true;
    return true;
  }

  void newcomer() {
    stage& s = *stage_;
    child n([&] {
      worker w(s.judge, algorithm_);
      if (!w.open(directory_.path(), 3)) return;
      get_everything(s, w, variant_ + 1, "the newcomer");
    });
    if (!n.ends_within(patience_ms)) {
      stage_->judge.complain("stuck: the newcomer");
    } else if (!n.ended_well()) {
      stage_->judge.complain("crash: the newcomer ended with status %#x", n.status());
    }
  }
  // The partner has its turn, and ends.
  void survivor() {
    stage_->victim_is_gone = true;
    stage_->may_end = true;
    if (!partner_.ends_within(patience_ms)) {
      stage_->judge.complain("stuck: the survivor");
    } else if (!partner_.ended_well()) {
      stage_->judge.complain("crash: the survivor ended with status %#x", partner_.status());
    }
  }
  void victim_is_gone() { stage_->victim_is_gone = true; }

  std::string verdict(char const* action, unsigned n, unsigned m = 0) {
    if (stage_->judge.complaints == 0 && directory_.count() > algorithm_.files_left)
      stage_->judge.complain("left behind: %d files", static_cast<int>(directory_.count()));
    if (stage_->judge.complaints == 0) return {};
    char text[400];
    std::snprintf(text, sizeof text, "%s, %s, %s at step %u.%u (%s), variant %u: %s", algorithm_.name,
                  scene_.name, action, n, m, stage_->where, variant_, stage_->judge.verdict().c_str());
    return text;
  }

 private:
  child start(unsigned n, fate what, void (*act)(stage&, worker&, std::string const&)) {
    stage& s = *stage_;
    s.steps = 0;
    s.last = n;
    s.what = what;
    s.victim = s.judge.begin(algorithm_);
    return child([&, act] {
      worker w(s.judge, algorithm_, s.victim);
      w.ignore_time(); // it may be stopped
      on_step(count_steps);
      act(s, w, directory_.path());
      w.close();
    });
  }

  test::temporary_directory directory_;
  shared<stage> stage_;
  algorithm const& algorithm_;
  scene const& scene_;
  unsigned variant_;
  child partner_;
  child recoverer_;
  unsigned recoverer_number_ = 0;
};

constexpr unsigned most_steps = 400;

std::string kill_once(algorithm const& what, scene const& which, unsigned n, unsigned variant,
                      bool& was_reached) {
  performance p(what, which, variant);
  bool const partner_stays = variant % 3 != 2;
  p.begin(partner_stays);
  was_reached = p.kill_at(n, which.victim);
  p.victim_is_gone();
  if (variant % 3 == 1) {
    p.survivor();
    p.newcomer();
  } else {
    if (!partner_stays) p.survivor(); // it leaves
    p.newcomer();
    if (partner_stays) p.survivor();
  }
  return p.verdict("killed", n);
}

} // namespace

std::string check_kill_points(algorithm const& what, thoroughness const& t, unsigned* cases) {
  unsigned seen = 0;
  for (scene const& which : scenes) {
    for (unsigned n = 1; n != most_steps; ++n) {
      bool was_reached = false;
      unsigned const variants = t.one_of == 1 ? 12 : 1;
      for (unsigned i = 0; i != variants; ++i) {
        unsigned const variant = variants == 1 ? n : i;
        std::string wrong = kill_once(what, which, n, variant, was_reached);
        ++seen;
        if (!wrong.empty()) return wrong;
      }
      if (!was_reached) break;
    }
  }
  if (cases != nullptr) *cases = seen;
  return {};
}

std::string check_double_faults(algorithm const& what, thoroughness const& t, unsigned* cases) {
  unsigned seen = 0;
  scene const& which = scenes[0];
  unsigned n = 1;
  bool first_was_reached = true;
  for (; first_was_reached && n != most_steps; ++n) {
    bool second_was_reached = true;
    for (unsigned m = 1 + (t.one_of == 1 ? 0 : n % t.one_of); second_was_reached && m < most_steps;
         m += t.one_of) {
      unsigned const variant = n + m;
      performance p(what, which, variant);
      bool const partner_stays = variant % 2 == 0;
      if (partner_stays) p.begin(true);
      bool const has_it_open = variant % 3 != 0;
      if (has_it_open) p.prepare_recoverer();
      first_was_reached = p.kill_at(n, which.victim);
      if (!first_was_reached) {
        p.survivor();
        break;
      }
      second_was_reached = has_it_open ? p.dies(p.start_recoverer(m, fate::killed)) : p.kill_at(m, recover);
      if (partner_stays) p.survivor();
      p.newcomer();
      ++seen;
      if (std::string wrong = p.verdict("killed and its recoverer killed", n, m); !wrong.empty())
        return wrong;
    }
  }
  if (cases != nullptr) *cases = seen;
  return {};
}

std::string check_pause_points(algorithm const& what, thoroughness const& t, unsigned* cases) {
  unsigned seen = 0;
  auto const all_steps = [&](scene const& which, bool after_a_death) {
    bool was_reached = true;
    for (unsigned n = 1 + (t.one_of == 1 ? 0 : seen % t.one_of); was_reached && n < most_steps;
         n += t.one_of) {
      performance p(what, which, n);
      p.begin(true);
      if (after_a_death) {
        p.prepare_recoverer();
        p.die_holding();
        was_reached = p.stops(p.start_recoverer(n, fate::stopped));
      } else {
        was_reached = p.stop_at(n);
      }
      p.survivor();
      ++seen;
      if (std::string wrong = p.verdict("stopped", n); !wrong.empty()) return wrong;
    }
    return std::string();
  };
  for (scene const& which : scenes)
    if (std::string wrong = all_steps(which, false); !wrong.empty()) return wrong;
  scene const recovering{"recovers", recover, scenes[0].partner};
  if (std::string wrong = all_steps(recovering, true); !wrong.empty()) return wrong;
  if (cases != nullptr) *cases = seen;
  return {};
}

} // namespace crash
