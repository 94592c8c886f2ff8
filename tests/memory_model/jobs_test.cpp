// How jobs reach the threads that may block (src/driver/job_protocol.hpp): in the executions that the memory
// model allows, each job is run once or taken back, none is left, and two of one lane never run at once.

#include "driver/job_protocol.hpp"
#include "memory_model/sound.hpp"

#include <array>
#include <memory>

namespace {

using namespace memory_model;

constexpr auto seq_cst = std::memory_order_seq_cst;

template <unsigned Threads, unsigned Lanes> struct model {
  template <class T> using atomic = memory_model::atomic<T>;
  static constexpr std::uint64_t ring_size = 2, lane_size = 2;
  static constexpr unsigned lanes = Lanes;
  static constexpr std::size_t threads = Threads;

  world* in = nullptr;
  bool lingers = false;
  std::array<int, Threads> enough{}; // how many jobs each thread runs
  std::array<int, Threads> ran{};
  std::array<int, 4> runs{}; // of each job
  plain<int> of_lane{0};
  unio::driver::job_protocol<model> jobs{*this};

  void run(std::uint64_t j) {
    ++runs.at(j);
    if (Lanes != 0) of_lane.write(of_lane.read() + 1);
    ++ran.at(static_cast<std::size_t>(in->self()) - first_worker);
  }
  std::size_t first_worker = 0;
  void sleep(std::size_t, memory_model::atomic<std::uint32_t>& bell, std::uint32_t seen) {
    sleep_on(bell, seen, 1'000'000, false);
  }
  void ring_bell(memory_model::atomic<std::uint32_t>& bell) {
    bell.fetch_add(1, seq_cst);
    wake_sleepers(bell, 1);
  }
  bool may_linger(std::size_t) { return lingers; }
  template <class Came> void linger(std::size_t, Came came) { (void)came(); }
  void all_busy() {}
  bool ends(std::size_t self) { return ran.at(self) == enough.at(self); }
};

void weaken_looks(operation& o) {
  if (o.what == action::load && o.order == seq_cst) o.order = std::memory_order_acquire;
}

struct setting {
  int posters = 1;
  bool lingers = false;
  bool takes_back = false;
  int preemptions = -1;
  void (*mutant)(operation&) = nullptr;
};

// Each poster gives one job; the workers run all in equal parts. With `takes_back` the first wants its job
// back, and gives another if it got it.
template <unsigned Workers, unsigned Lanes> report check(setting const& s) {
  return explore({.preemptions = s.preemptions, .mutant = s.mutant}, [=](world& w) {
    auto const m = std::make_shared<model<Workers, Lanes>>();
    m->in = &w;
    m->lingers = s.lingers;
    m->first_worker = static_cast<std::size_t>(s.posters);
    m->enough.fill(s.posters / static_cast<int>(Workers));
    w.name_rest("jobs");
    for (int i = 0; i != s.posters; ++i)
      w.thread([=, &w] {
        std::uint64_t where = 0;
        if (!m->jobs.give(static_cast<std::uint64_t>(i) + 1, 0, where)) w.fail("full");
        if (s.takes_back && i == 0 && m->jobs.take_back(1, where)) {
          if (!m->jobs.give(3, 0, where)) w.fail("full");
        }
      });
    for (std::size_t i = 0; i != Workers; ++i) w.thread([=] { m->jobs.work(i); });
    w.at_end([=, &w] {
      int all = 0;
      for (int const n : m->runs) {
        all += n;
        if (n > 1) w.fail("a job ran twice");
      }
      if (all != s.posters) w.fail("a job was lost");
      if (m->runs[1] + m->runs[3] != 1) w.fail("taken back and run");
    });
  });
}

void expect_no_error(report const& r) { expect_sound(r, {.is_complete = false}); }

TEST(jobs, reach_a_worker_that_sleeps) { expect_no_error(check<1, 0>({.posters = 1})); }
TEST(jobs, reach_a_worker_from_two_threads) {
  expect_no_error(check<1, 0>({.posters = 2, .preemptions = 2}));
}
TEST(jobs, reach_a_worker_that_lingers) {
  expect_no_error(check<1, 0>({.posters = 1, .lingers = true, .preemptions = 3}));
}
TEST(jobs, are_run_or_taken_back) {
  expect_no_error(check<1, 0>({.posters = 1, .takes_back = true, .preemptions = 3}));
}
// Neither worker sleeps here: the point is what the lane guards.
report check_lane(void (*mutant)(operation&) = nullptr) {
  return explore({.preemptions = 2, .mutant = mutant}, [](world& w) {
    auto const m = std::make_shared<model<2, 1>>();
    m->in = &w;
    m->first_worker = 2;
    w.name_rest("jobs");
    for (std::uint64_t j = 1; j != 3; ++j)
      w.thread([=] {
        std::uint64_t where = 0;
        (void)m->jobs.give(j, 0, where);
      });
    for (int i = 0; i != 2; ++i)
      w.thread([=] {
        for (int tries = 0; tries != 2; ++tries) (void)m->jobs.run_one([] {});
      });
    w.at_end([=, &w] {
      if (m->runs[1] > 1 || m->runs[2] > 1) w.fail("a job ran twice");
      int const left = 2 - m->runs[1] - m->runs[2];
      if (left != 0 && !m->jobs.has_work()) w.fail("a job is left that no worker can see");
    });
  });
}

TEST(jobs, of_a_lane_run_one_after_the_other) { expect_no_error(check_lane()); }

TEST(jobs, of_a_lane_would_meet_if_it_were_handed_over_with_a_weaker_order) {
  EXPECT_NE(check_lane([](operation& o) {
              if (o.what == action::exchange) o.order = std::memory_order_relaxed;
            }).error,
            "");
}

TEST(jobs, of_a_lane_reach_a_worker_that_sleeps) {
  expect_no_error(check<1, 1>({.posters = 2, .preemptions = 2}));
}
TEST(jobs, of_a_lane_are_run_or_taken_back) {
  expect_no_error(check<1, 1>({.posters = 1, .takes_back = true, .preemptions = 2}));
}

TEST(jobs, would_be_lost_if_looks_had_a_weaker_order) {
  setting const planted{.posters = 1, .preemptions = 2, .mutant = weaken_looks};
  EXPECT_NE((check<1, 0>(planted).error), "");
}

} // namespace
