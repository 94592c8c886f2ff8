// What threads bring to an engine, and how its thread sleeps and is woken (src/driver/mailbox.hpp): in every
// execution of two threads, and in those of three with few preemptions, everything is taken, each wake() ends
// a run, what was written before is seen, and no thread touches the mailbox of an engine that has ended.

#include "driver/mailbox.hpp"

#include "memory_model/sound.hpp"

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace memory_model;

constexpr auto seq_cst = std::memory_order_seq_cst;

// Written when the engine has ended.
plain<int>* end_of_life = nullptr;

// As atomic<T>. Each use must happen before the engine has ended.
template <class T> class mortal : public atomic<T> {
  using base = atomic<T>;
  using order = std::memory_order;

 public:
  using base::base;
  T load(order o) const { return use(), base::load(o); }
  void store(T v, order o) { use(), base::store(v, o); }
  T fetch_add(T v, order o) { return use(), base::fetch_add(v, o); }
  T fetch_sub(T v, order o) { return use(), base::fetch_add(static_cast<T>(0 - v), o); }
  T exchange(T v, order o) { return use(), base::exchange(v, o); }
  bool compare_exchange_weak(T& expected, T desired, order o, order failure) {
    return use(), base::compare_exchange_weak(expected, desired, o, failure);
  }

 private:
  static void use() { (void)end_of_life->read(); }
};

struct letter {
  letter* next = nullptr;
  plain<int> says{0};
};
struct letter_link {
  static letter*& next(letter& l) noexcept { return l.next; }
};

struct bell {
  mortal<std::uint32_t> rung{0};
  void ring() {
    rung.fetch_add(1, seq_cst);
    wake_sleepers(rung, 1);
  }
};

struct mail {
  template <class T> using atomic = mortal<T>;
  using bell_type = bell;
  using posts = unio::driver::inbox<letter, letter_link, mortal>;
  using messages = posts;
  using returns = posts;
};

struct engine {
  plain<int> ended{0};
  unio::driver::mailbox<mail> box = made();
  std::array<letter, 4> letters;
  std::array<atomic<bool>, 2> done; // by each of the other threads
  atomic<bool> lent{false};
  world* in = nullptr;

  unio::driver::mailbox<mail> made() {
    end_of_life = &ended;
    return unio::driver::mailbox<mail>();
  }

  int take(letter* l) {
    int n = 0;
    for (; l != nullptr; l = l->next, ++n)
      if (l->says.read() != 1) in->fail("an empty letter");
    return n;
  }
  int take_letters() { return take(box.take_posts()) + take(box.take_messages()) + take(box.take_returns()); }
  // A run: sleeps until something has come. How many letters; or -1: woken.
  int run() {
    for (;;) {
      if (int const n = take_letters(); n != 0) return n;
      if (box.take_wake()) return -1;
      sleep_unless([] { return false; });
    }
  }
  template <class HasMore> void sleep_unless(HasMore has_more) {
    std::uint32_t const seen = box.bell.rung.load(seq_cst);
    if (!box.lie_down() && !has_more()) sleep_on(box.bell.rung, seen, 1'000'000, false);
    box.rise();
  }
  void run_until(int letters_taken) {
    for (int n = 0; n < letters_taken;)
      if (int const got = run(); got > 0) n += got;
  }
  void end() {
    while (box.is_used()) in->spin();
    ended.write(1);
  }
  letter& written(int i) {
    letters.at(static_cast<std::size_t>(i)).says.write(1);
    return letters.at(static_cast<std::size_t>(i));
  }
};

using body = std::function<void(engine&)>;
using mutant = void (*)(operation&);

// The engine's thread is the first.
report check(std::vector<body> const& threads, mutant planted = nullptr, int preemptions = -1) {
  return explore({.preemptions = preemptions, .mutant = planted}, [&](world& w) {
    auto const e = std::make_shared<engine>();
    e->in = &w;
    w.name(&e->box.bell.rung, "bell");
    w.name_rest("mailbox");
    for (body const& b : threads) w.thread([=] { b(*e); });
  });
}

body takes(int letters) {
  return [=](engine& e) { e.run_until(letters); };
}
body ends_after(int letters) {
  return [=](engine& e) {
    e.run_until(letters);
    e.end();
  };
}
body lends_one_and_ends() {
  return [](engine& e) {
    e.box.lend();
    e.lent.store(true, std::memory_order_release);
    e.run_until(1);
    e.end();
  };
}
body posts(int i) {
  return [=](engine& e) { e.box.post(e.written(i)); };
}
body sends(int i) {
  return [=](engine& e) { e.box.send(e.written(i)); };
}
body works(int i) {
  return [=](engine& e) {
    while (!e.lent.load(std::memory_order_acquire)) e.in->spin();
    e.box.give_back(e.written(i));
  };
}
// Each wake() is followed by a run that ends and sees what was done before the call.
body wakes(int i) {
  return [=](engine& e) {
    e.done.at(static_cast<std::size_t>(i)).store(true, std::memory_order_relaxed);
    e.box.wake();
  };
}
body is_woken_by(int threads) {
  return [=](engine& e) {
    auto const all = [&] {
      bool found = true;
      for (int i = 0; i != threads; ++i)
        found = e.done.at(static_cast<std::size_t>(i)).load(std::memory_order_relaxed) && found;
      return found;
    };
    while (!all()) (void)e.run();
  };
}
// What is elsewhere: work for several threads, say.
body pokes() {
  return [](engine& e) {
    e.done.at(0).store(true, seq_cst);
    e.box.poke();
  };
}
body looks_elsewhere() {
  return [](engine& e) {
    auto const has_come = [&] { return e.done.at(0).load(seq_cst); };
    for (bool come = false; !come;) {
      e.sleep_unless(has_come);
      (void)e.take_letters();
      come = has_come();
    }
  };
}

TEST(mailbox, wakes_a_sleeper_for_what_is_posted) {
  expect_sound(check({takes(1), posts(0)}));
  expect_sound(check({takes(2), posts(0), posts(1)}, nullptr, 2));
}

TEST(mailbox, wakes_a_sleeper_for_each_kind_of_mail) {
  expect_sound(check({takes(1), sends(0)}));
  expect_sound(check({lends_one_and_ends(), works(0)}));
  expect_sound(check({takes(2), posts(0), sends(1)}, nullptr, 2));
}

TEST(mailbox, ends_a_run_after_each_call_that_wakes) {
  expect_sound(check({is_woken_by(1), wakes(0)}));
  expect_sound(check({is_woken_by(2), wakes(0), wakes(1)}, nullptr, 3));
}

TEST(mailbox, wakes_a_sleeper_for_what_is_elsewhere) {
  expect_sound(check({looks_elsewhere(), pokes()}));
  expect_sound(check({looks_elsewhere(), pokes(), sends(0)}, nullptr, 2));
}

TEST(mailbox, is_left_by_all_threads_before_its_engine_ends) {
  expect_sound(check({ends_after(1), posts(0)}));
  expect_sound(check({ends_after(1), sends(0)}));
  expect_sound(check({ends_after(2), posts(0), sends(1)}, nullptr, 2));
}

// The canaries: each order is needed. The engine's thread is 0.
constexpr auto acquire = std::memory_order_acquire, release = std::memory_order_release,
               relaxed = std::memory_order_relaxed;
bool looks(operation const& o) { return o.what == action::load && o.order == seq_cst; }
void other_looks_outside_S(operation& o) {
  if (o.thread != 0 && looks(o)) o.order = acquire;
}
void sleeper_looks_outside_S(operation& o) {
  if (o.thread == 0 && looks(o)) o.order = acquire;
}
void pushed_outside_S(operation& o) {
  if (o.what == action::compare_exchange) o.order = release;
}
void pushed_relaxed(operation& o) {
  if (o.what == action::compare_exchange) o.order = relaxed;
}
void taken_relaxed(operation& o) {
  if (o.what == action::exchange && o.order == acquire) o.order = relaxed;
}
void left_relaxed(operation& o) {
  if (o.what == action::exchange && o.order == release) o.order = relaxed;
}
void ended_relaxed(operation& o) {
  if (o.what == action::load && o.order == acquire) o.order = relaxed;
}

struct canary {
  char const* name;
  std::vector<body> threads;
  mutant planted;
};

class mailbox_canary : public ::testing::TestWithParam<canary> {};

TEST_P(mailbox_canary, is_found) {
  report const r = check(GetParam().threads, GetParam().planted);
  ASSERT_NE(r.error, "");
  std::printf("[ found    ] after %llu executions: %s\n", static_cast<unsigned long long>(r.executions),
              r.error.c_str());
}

std::vector<canary> canaries() {
  return {{"the_other_thread_looks_outside_S", {takes(1), posts(0)}, other_looks_outside_S},
          {"the_sleeper_looks_outside_S", {takes(1), posts(0)}, sleeper_looks_outside_S},
          {"the_sleeper_looks_for_a_wake_outside_S", {is_woken_by(1), wakes(0)}, sleeper_looks_outside_S},
          {"a_letter_is_pushed_outside_S", {takes(1), sends(0)}, pushed_outside_S},
          {"a_letter_is_pushed_relaxed", {takes(1), posts(0)}, pushed_relaxed},
          {"a_wake_is_taken_relaxed", {is_woken_by(1), wakes(0)}, taken_relaxed},
          {"a_worker_leaves_relaxed", {lends_one_and_ends(), works(0)}, left_relaxed},
          {"who_posts_leaves_relaxed", {ends_after(1), posts(0)}, left_relaxed},
          {"the_end_does_not_acquire", {ends_after(1), sends(0)}, ended_relaxed}};
}
INSTANTIATE_TEST_SUITE_P(mailbox, mailbox_canary, ::testing::ValuesIn(canaries()),
                         [](auto const& c) { return std::string(c.param.name); });

} // namespace
