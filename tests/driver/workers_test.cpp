// The threads that may block (src/driver/workers.hpp): how many calls run at once, which never do, and that a
// job is run once or taken back.

#include "op/call.hpp"
#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <pthread.h>

#include <random>

namespace {

using namespace test;

struct seen {
  std::atomic<int> running{0}, most{0}, ran{0};
  std::atomic<bool> hold{false};
  void begin() {
    int const now = ++running;
    int before = most;
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    while (hold) std::this_thread::sleep_for(1ms);
  }
  void end() {
    --running;
    ++ran;
  }
};

// A call that takes as long as it is told to.
template <bool ChangesDirectory> class job : public io_operation {
 public:
  job(seen& s, unio::io_multiplexer& m, std::chrono::microseconds takes = 0us, int directory = -1,
      unio::deadline d = {})
      : io_operation(faces, unio::handle_kind::none, directory, &m, d), seen_(s), takes_(takes) {
    set_notification([](io_operation& op, unsigned stages) noexcept {
      if ((stages & value) != 0) ++static_cast<job&>(op).notified;
      if ((stages & done) != 0) op.mark_finished();
    });
  }
  ~job() { abandon(); }
  int notified = 0;
  std::atomic<int> runs{0};

 private:
  static int call(job& self) noexcept {
    self.seen_.begin();
    ++self.runs;
    if (self.takes_ != 0us) std::this_thread::sleep_for(self.takes_);
    self.seen_.end();
    return 7;
  }
  static unio::driver::operation_faces const faces;
  seen& seen_;
  std::chrono::microseconds takes_;
};
template <bool C>
constinit unio::driver::operation_faces const job<C>::faces =
    unio::op::call_faces<job<C>, job<C>::call>("job", C);

using plain_job = job<false>;
using directory_job = job<true>;

template <class Ops> void drive(unio::io_multiplexer& m, Ops& all) {
  auto const give_up = std::chrono::steady_clock::now() + 30s;
  while (std::ranges::any_of(all, [](auto const& op) { return !op.finished(); })) {
    (void)m.try_run_for(100ms);
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
  }
}

// All workers are busy until `s.hold` is false.
void occupy_all(unio::io_multiplexer& m, seen& s, std::deque<plain_job>& holders) {
  s.hold = true;
  for (int i = 0; i != 4; ++i) holders.emplace_back(s, m).start();
  for (int i = 0; i != 16; ++i) (void)m.try_run();
  for (int i = 0; s.running != 4 && i != 10'000; ++i) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(s.running, 4);
}

class workers : public test::on_each_driver {};
UNIO_ON_BOTH_DRIVERS(workers);

TEST_P(workers, run_every_job_once) {
  seen s;
  std::deque<plain_job> jobs;
  for (int i = 0; i != 10'000; ++i) jobs.emplace_back(s, *m_).start(); // more than may wait at once
  drive(*m_, jobs);
  for (plain_job const& j : jobs) {
    ASSERT_EQ(j.runs, 1);
    ASSERT_EQ(j.notified, 1);
    ASSERT_EQ(j.outcome_value(), 7);
  }
  EXPECT_EQ(m_->counters().worker_jobs, 10'000U);
}

TEST_P(workers, are_four_at_most_and_more_than_processors_only_for_long_calls) {
  seen s;
  s.hold = true;
  std::deque<plain_job> jobs;
  for (int i = 0; i != 8; ++i) jobs.emplace_back(s, *m_).start();
  for (int i = 0; i != 16; ++i) (void)m_->try_run(); // a ring is asked first, which may have one entry
  for (int i = 0; s.running != 4 && i != 10'000; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(s.running, 4);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(s.running, 4);
  s.hold = false;
  drive(*m_, jobs);
  EXPECT_EQ(s.most, 4);
}

TEST_P(workers, never_change_one_directory_twice_at_once) {
  seen one, other;
  std::deque<directory_job> jobs;
  for (int i = 0; i != 100; ++i) {
    jobs.emplace_back(one, *m_, 100us, 3).start();
    jobs.emplace_back(other, *m_, 100us, 4).start();
  }
  drive(*m_, jobs);
  EXPECT_EQ(one.most, 1);
  EXPECT_EQ(other.most, 1);
  EXPECT_EQ(one.ran + other.ran, 200);
}

TEST_P(workers, begin_nothing_whose_deadline_has_passed) {
  seen s;
  std::deque<plain_job> holders;
  occupy_all(*m_, s, holders);
  plain_job late(s, *m_, 0us, -1, 5ms), stopped(s, *m_);
  late.start();
  stopped.start();
  test::temporary_directory const directory;
  std::string const name = directory / "new";
  std::vector<unio::io_result<unio::file_handle>> made;
  auto makes = unio::connect(
      unio::async_open({}, name, unio::handle::mode::write, unio::handle::creation::only_if_not_exist,
                       unio::handle::caching::all, unio::handle::flag::none, 5ms),
      test::keep{&made});
  makes.start(m_.get());
  for (int i = 0; i != 4; ++i) (void)m_->try_run();
  stopped.cancel();
  while (!late.finished() || !stopped.finished() || !makes.finished()) (void)m_->try_run_for(100ms);
  EXPECT_EQ(late.outcome_value(), -ETIMEDOUT);
  EXPECT_EQ(stopped.outcome_value(), -ECANCELED);
  EXPECT_EQ(made.at(0).error(), unio::condition::timed_out);
  s.hold = false;
  drive(*m_, holders);
  EXPECT_EQ(late.runs + stopped.runs, 0);
  EXPECT_EQ(directory.count(), 0) << "nothing is made after the deadline";
}

TEST_P(workers, run_a_job_or_it_is_taken_back) {
  std::mt19937 random(7);
  seen s;
  for (int round = 0; round != 50; ++round) {
    std::deque<directory_job> jobs;
    for (int i = 0; i != 40; ++i) jobs.emplace_back(s, *m_, 0us, i % 3).start();
    for (directory_job& j : jobs)
      if (random() % 2 == 0) j.cancel();
    drive(*m_, jobs);
    for (directory_job const& j : jobs) {
      ASSERT_EQ(j.notified, 1);
      ASSERT_EQ(j.outcome_value(), j.runs == 1 ? 7 : -ECANCELED);
    }
  }
}

// The second directory of a call is one of its descriptors as the first is.
TEST_P(workers, do_not_use_a_directory_that_was_closed) {
  test::temporary_directory const a, b;
  a.write("file", "");
  for (bool const closes_first : {true, false}) {
    unio::path_handle from = unio::path_handle::path(a.path()).value();
    unio::path_handle to = unio::path_handle::path(b.path()).value();
    seen s;
    std::deque<plain_job> holders;
    occupy_all(*m_, s, holders);
    test::started moves(unio::async_rename(from, "file", to, "moved"), m_.get());
    for (int i = 0; i != 4; ++i) (void)m_->try_run();
    EXPECT_TRUE((closes_first ? from : to).close());
    s.hold = false;
    while (!moves.ended()) (void)m_->try_run_for(100ms);
    EXPECT_EQ(moves.error, unio::condition::canceled);
    drive(*m_, holders);
  }
}

TEST_P(workers, serve_several_multiplexers) {
  seen s;
  // Made here: it takes a variable of the environment, which threads cannot change at the same time.
  std::vector<std::unique_ptr<unio::io_multiplexer>> all;
  for (int t = 0; t != 4; ++t) all.push_back(test::make_multiplexer(GetParam().c_str()).value());
  std::vector<std::thread> threads;
  for (auto& of_one : all)
    threads.emplace_back([&s, mine = std::move(of_one)] {
      for (int i = 0; i != 500; ++i) {
        std::deque<directory_job> two;
        two.emplace_back(s, *mine, 0us, 5).start();
        two.emplace_back(s, *mine, 0us, 6).start();
        drive(*mine, two);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(s.ran, 4000);
}

} // namespace
