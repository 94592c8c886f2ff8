// signal_handle.hpp: signals as something to wait for, by a handler and by a mask.
//
// Dispositions and masks belong to a process and to a thread, so what changes them for good happens in a
// forked process.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "sys/sanitizer.hpp"

#include <unio/process_handle.hpp>

#include <pthread.h>
#include <signal.h> // NOLINT: sigqueue

namespace {

using namespace test;

// It calls handlers when the program next calls the C library, and lets a forked child start no threads.
#if defined(UNIO_THREAD_SANITIZER)
constexpr bool defers_signals = true;
#else
constexpr bool defers_signals = false;
#endif

bool is_default(int number) {
  struct sigaction a = {};
  ::sigaction(number, nullptr, &a);
  return (a.sa_flags & SA_SIGINFO) == 0 && a.sa_handler == SIG_DFL;
}
bool is_blocked(int number) {
  sigset_t now;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return sigismember(&now, number) == 1;
}

// ---- sets ------------------------------------------------------------------------------------------------

TEST(signal_set, holds_signals_by_their_numbers) {
  constexpr signal_set s = {1, 15, 64};
  static_assert(s.contains(15) && !s.contains(14) && s.is_valid());
  EXPECT_EQ(s.bits(), std::uint64_t{1} | std::uint64_t{1} << 14 | std::uint64_t{1} << 63);
  for (int const bad : {0, -1, 65}) {
    EXPECT_FALSE(signal_set{bad}.is_valid());
    EXPECT_FALSE(s.contains(bad));
    EXPECT_EQ(signal_handle::create({bad}).error().value(), EINVAL);
    EXPECT_EQ(unio::block_signals({bad}).error().value(), EINVAL);
  }
}

// ---- both ways -------------------------------------------------------------------------------------------

class signal_by : public ::testing::TestWithParam<delivery> {};
INSTANTIATE_TEST_SUITE_P(way, signal_by, ::testing::Values(delivery::handler, delivery::mask),
                         [](auto const& of) { return of.param == delivery::mask ? "mask" : "handler"; });

TEST_P(signal_by, tells_who_sent_it) {
  test::expect_in_child([&] {
    signal_handle h = signal_handle::create({SIGUSR1, SIGRTMIN + 1}, GetParam()).value();
    CHILD_EXPECTS(h.kind() == unio::handle_kind::signal);
    CHILD_EXPECTS(h.try_wait().error() == unio::condition::would_block);
    CHILD_EXPECTS(h.try_wait_for(2ms).error() == unio::condition::timed_out);
    ::kill(::getpid(), SIGUSR1);
    signal_info const s = h.wait(long_time).value();
    CHILD_EXPECTS(s.number == SIGUSR1 && s.code == SI_USER);
    CHILD_EXPECTS(s.process == ::getpid() && s.user == ::getuid());
    ::sigqueue(::getpid(), SIGRTMIN + 1, {.sival_ptr = &h});
    signal_info const q = h.wait(long_time).value();
    CHILD_EXPECTS(q.number == SIGRTMIN + 1 && q.code == SI_QUEUE);
    CHILD_EXPECTS(reinterpret_cast<void*>(static_cast<std::intptr_t>(q.value)) == &h);
    return CHILD_MEETS(h.try_wait().error() == unio::condition::would_block);
  });
}

TEST_P(signal_by, coalesces_only_what_is_not_of_real_time) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([&] {
    signal_handle h = signal_handle::create({SIGUSR1, SIGRTMIN}, GetParam()).value();
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGRTMIN);
    ::pthread_sigmask(SIG_BLOCK, &both, &before);
    for (int i = 0; i < 3; ++i) {
      ::kill(::getpid(), SIGUSR1);
      ::sigqueue(::getpid(), SIGRTMIN, {.sival_int = i});
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr); // with a handler they come now
    int ordinary = 0;
    std::vector<std::int64_t> values;
    while (auto const s = h.try_wait()) {
      if (s->number == SIGUSR1)
        ++ordinary;
      else
        values.push_back(s->value & 0xff);
    }
    CHILD_EXPECTS(ordinary == 1);
    return CHILD_MEETS(values == std::vector<std::int64_t>{0, 1, 2});
  });
}

TEST_P(signal_by, refuses_what_nobody_can_take) {
  for (int const n : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, 32, 33}) {
    EXPECT_EQ(signal_handle::create({n}, GetParam()).error().value(), EINVAL) << n;
    EXPECT_EQ(signal_handle::create({SIGUSR1, n}, GetParam()).error().value(), EINVAL) << n;
  }
  EXPECT_EQ(signal_handle::create({}, GetParam()).error().value(), EINVAL);
  EXPECT_TRUE(is_default(SIGUSR1));
  EXPECT_FALSE(is_blocked(SIGUSR1));
}

TEST_P(signal_by, leaves_nothing_behind_where_a_call_fails) {
  auto const before = test::count_descriptors();
  using table = unio::sys::table;
  for (int const error : {EMFILE, ENFILE, ENOMEM}) {
    test::failing_calls calls;
    calls.fail<&table::pipe>(error);
    calls.fail<&table::signalfd>(error);
    EXPECT_EQ(signal_handle::create({SIGUSR1}, GetParam()).error().value(), error);
    EXPECT_TRUE(is_default(SIGUSR1));
    EXPECT_FALSE(is_blocked(SIGUSR1));
    EXPECT_EQ(test::count_descriptors(), before);
  }
}

TEST_P(signal_by, interrupts_a_wait_without_a_deadline) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([&] {
    signal_handle h = signal_handle::create({SIGUSR1}, GetParam()).value();
    std::thread sender([] {
      std::this_thread::sleep_for(5ms);
      ::kill(::getpid(), SIGUSR1);
    });
    int const number = h.wait().value().number;
    sender.join();
    return CHILD_MEETS(number == SIGUSR1);
  });
}

TEST_P(signal_by, tells_of_the_end_of_children) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([&] {
    signal_handle h = signal_handle::create({SIGCHLD}, GetParam()).value();
    pid_t const child = ::fork();
    if (child == 0) ::_exit(7);
    signal_info const s = h.wait(long_time).value();
    int status = 0;
    ::waitpid(child, &status, 0);
    return s.number == SIGCHLD && s.code == CLD_EXITED && s.process == child && s.value == 7 ? 0 : 1;
  });
}

// ---- by a handler ----------------------------------------------------------------------------------------

TEST(signal_by_handler, comes_to_each_handle) {
  signal_handle a = signal_handle::create({SIGUSR1}).value();
  signal_handle b = signal_handle::create({SIGUSR1, SIGUSR2}).value();
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(a.wait(long_time).value().number, SIGUSR1);
  EXPECT_EQ(b.wait(long_time).value().number, SIGUSR1);
  ::kill(::getpid(), SIGUSR2);
  EXPECT_EQ(b.wait(long_time).value().number, SIGUSR2);
  EXPECT_EQ(a.try_wait().error(), unio::condition::would_block);
}

TEST(signal_by_handler, touches_no_mask_and_gives_the_disposition_back) {
  auto const before = test::count_descriptors();
  {
    signal_handle a = signal_handle::create({SIGUSR1}).value();
    signal_handle b = signal_handle::create({SIGUSR1}).value();
    EXPECT_FALSE(is_blocked(SIGUSR1));
    EXPECT_FALSE(is_default(SIGUSR1));
    ASSERT_TRUE(a.close());
    EXPECT_FALSE(is_default(SIGUSR1)) << "b has it still";
    signal_handle c = std::move(b);
    EXPECT_FALSE(b.is_open());
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(c.wait(long_time).value().number, SIGUSR1);
    c = signal_handle::create({SIGUSR2}).value();
    EXPECT_TRUE(is_default(SIGUSR1));
  }
  EXPECT_TRUE(is_default(SIGUSR2));
  EXPECT_EQ(test::count_descriptors(), before);
}

std::atomic<int> called = 0;

TEST(signal_by_handler, calls_what_handled_it_before) {
  struct sigaction mine = {}, old = {};
  mine.sa_handler = [](int) { ++called; };
  ::sigaction(SIGUSR1, &mine, &old);
  called = 0;
  {
    signal_handle h = signal_handle::create({SIGUSR1}).value();
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(h.wait(long_time).value().number, SIGUSR1);
    EXPECT_EQ(called, 1);
  }
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(called, 2);
  ::sigaction(SIGUSR1, &old, nullptr);
}

TEST(signal_by_handler, is_kept_by_a_handler_that_was_installed_over_it) {
  static struct sigaction ours;
  struct sigaction over = {}, old = {};
  over.sa_flags = SA_SIGINFO;
  over.sa_sigaction = [](int n, siginfo_t* i, void* c) {
    ++called;
    ours.sa_sigaction(n, i, c);
  };
  called = 0;
  ::sigaction(SIGUSR1, nullptr, &old);
  {
    signal_handle h = signal_handle::create({SIGUSR1}).value();
    ::sigaction(SIGUSR1, &over, &ours);
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(h.wait(long_time).value().number, SIGUSR1);
  }
  ::kill(::getpid(), SIGUSR1); // which calls ours, and nobody wants it
  EXPECT_EQ(called, 2);
  signal_handle h = signal_handle::create({SIGUSR1}).value();
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(h.wait(long_time).value().number, SIGUSR1);
  EXPECT_EQ(called, 3) << "once, and not again and again";
  ASSERT_TRUE(h.close());
  ::sigaction(SIGUSR1, &old, nullptr);
  signal_handle again = signal_handle::create({SIGUSR1}).value();
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(again.wait(long_time).value().number, SIGUSR1);
}

TEST(signal_by_handler, leaves_children_to_the_kernel_where_that_removed_them) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    signal_handle h = signal_handle::create({SIGCHLD}).value();
    pid_t const child = ::fork();
    if (child == 0) ::_exit(0);
    CHILD_EXPECTS(h.wait(long_time).value().process == child);
    int status = 0;
    return CHILD_MEETS(::waitpid(child, &status, 0) == -1 && errno == ECHILD);
  });
}

TEST(signal_by_handler, drops_what_a_handle_has_no_room_for) {
  signal_handle h = signal_handle::create({SIGUSR1}).value();
  for (int i = 0; i < 20'000; ++i) ::kill(::getpid(), SIGUSR1);
  int n = 0;
  while (h.try_wait().has_value()) ++n;
  EXPECT_GE(n, 1000);
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(h.wait(long_time).value().number, SIGUSR1) << "whole records, as before";
}

TEST(signal_by_handler, keeps_which_signals_it_has_no_room_for) {
  signal_handle h = signal_handle::create({SIGUSR1, SIGUSR2, SIGTERM}).value();
  for (int i = 0; i < 20'000; ++i) ::kill(::getpid(), SIGUSR1);
  for (int i = 0; i < 2; ++i)
    for (int const late : {SIGTERM, SIGUSR2}) ::kill(::getpid(), late);
  std::map<int, int> came;
  while (auto const s = h.try_wait()) ++came[s->number];
  EXPECT_GE(came[SIGUSR1], 1000);
  EXPECT_EQ(came[SIGTERM], 1);
  EXPECT_EQ(came[SIGUSR2], 1);
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(h.wait(long_time).value().process, ::getpid());
}

TEST(signal_by_handler, is_dropped_where_the_handles_descriptor_was_given_away) {
  test::expect_in_child([] {
    signal_handle closed = signal_handle::create({SIGUSR1}).value();
    signal_handle released = signal_handle::create({SIGUSR1}).value();
    unio::async_close op(std::move(closed));
    op.run_blocking();
    ::close(released.release());
    return CHILD_MEETS(::raise(SIGUSR1) == 0); // and not SIGPIPE
  });
}

TEST(signal_by_handler, is_not_the_forked_childs) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  signal_handle h = signal_handle::create({SIGUSR1}).value();
  pid_t const child = ::fork();
  if (child == 0) {
    ::kill(::getpid(), SIGUSR1); // which kills, as if there were no handler
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(h.try_wait().error(), unio::condition::would_block) << "it was not sent to this process";

  test::expect_in_child([&] {
    signal_handle own = signal_handle::create({SIGUSR1}).value();
    ::kill(::getpid(), SIGUSR1);
    CHILD_EXPECTS(own.wait(long_time).value().process == ::getpid());
    CHILD_EXPECTS(h.close());
    ::kill(::getpid(), SIGUSR1);
    return CHILD_MEETS(own.wait(long_time).value().number == SIGUSR1);
  });
  EXPECT_EQ(h.try_wait().error(), unio::condition::would_block);
}

TEST(signal_by_handler, is_not_the_forked_childs_that_has_the_same_number) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([] {
    if (::unshare(CLONE_NEWPID) != 0) return 0; // not permitted
    return CHILD_MEETS(test::in_child([] {      // 1 in a namespace of processes
                         signal_handle h = signal_handle::create({SIGUSR1}).value();
                         CHILD_EXPECTS(::unshare(CLONE_NEWPID) == 0);
                         CHILD_EXPECTS(test::in_child([] { return ::raise(SIGUSR1); }) ==
                                       0); // 1 in its own, too
                         return CHILD_MEETS(h.try_wait().error() == unio::condition::would_block);
                       }) == 0);
  });
}

// What came before its own handle was treated as if there were none: the parent's handler is gone.
TEST(signal_by_handler, is_a_forked_childs_own_after_it_had_one_without_a_handle) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  signal_handle const h = signal_handle::create({SIGWINCH}).value();
  test::expect_in_child([] {
    ::kill(::getpid(), SIGWINCH); // which nothing is done for
    signal_handle own = signal_handle::create({SIGWINCH}).value();
    ::kill(::getpid(), SIGWINCH);
    return CHILD_MEETS(own.wait(long_time).has_value());
  });
}

// Handles come and go while signals come, on all threads: none is written to after its end.
TEST(signal_by_handler, may_end_while_signals_come) {
  std::atomic<bool> ends = false;
  signal_handle const stays = signal_handle::create({SIGUSR1}).value();
  std::thread sender([&] {
    while (!ends) {
      ::kill(::getpid(), SIGUSR1);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        signal_handle h = signal_handle::create({SIGUSR1}).value();
        if (i % 4 == 0) {
          EXPECT_EQ(h.wait(long_time).value().number, SIGUSR1);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  ends = true;
  sender.join();
}

TEST(signal_by_handler, interrupts_no_system_call) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  signal_handle const h = signal_handle::create({SIGUSR1}).value();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<bool> reads = false;
  std::thread sender([&, reader = ::pthread_self()] {
    while (!reads) std::this_thread::yield();
    std::this_thread::sleep_for(5ms);
    ::pthread_kill(reader, SIGUSR1);
    std::this_thread::sleep_for(5ms);
    (void)!::write(ends[1], "x", 1);
  });
  reads = true;
  char c = 0;
  EXPECT_EQ(::read(ends[0], &c, 1), 1);
  sender.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

// ---- by a mask -------------------------------------------------------------------------------------------

TEST(signal_by_mask, blocks_its_signals_here_and_installs_nothing) {
  test::expect_in_child([] {
    signal_handle h = signal_handle::create({SIGUSR1}, delivery::mask).value();
    CHILD_EXPECTS(is_blocked(SIGUSR1) && is_default(SIGUSR1));
    CHILD_EXPECTS(h.close() && is_blocked(SIGUSR1));
    return 0;
  });
}

TEST(signal_by_mask, goes_to_one_of_several_threads) {
  if (defers_signals) GTEST_SKIP() << "the sanitizer defers signals";
  test::expect_in_child([] {
    CHILD_EXPECTS(unio::block_signals({SIGRTMIN}).has_value()); // so do the threads below
    std::atomic<int> seen = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        signal_handle h = signal_handle::create({SIGRTMIN}, delivery::mask).value();
        while (seen < 50)
          if (h.try_wait_for(5ms).has_value()) ++seen;
      });
    for (int i = 0; i < 50; ++i) ::sigqueue(::getpid(), SIGRTMIN, {.sival_int = i});
    for (std::thread& t : threads) t.join();
    return CHILD_MEETS(seen == 50);
  });
}

// ---- on multiplexers -------------------------------------------------------------------------------------

class signal_on : public test::on_each_driver {};
UNIO_ON_BOTH_DRIVERS(signal_on);

struct tell {
  std::vector<int>* told;
  void set_value(unio::io_result<signal_info>&& r) { told->push_back(r.has_value() ? r->number : -1); }
  void set_done() {}
};

TEST_P(signal_on, comes_to_handles_of_several_multiplexers) {
  std::vector<int> here, there;
  signal_handle a = signal_handle::create({SIGUSR1}).value();
  a.set_multiplexer(m_.get());
  std::atomic<bool> waits = false;
  std::thread other([&] {
    auto m = test::make_multiplexer(GetParam().c_str()).value();
    signal_handle b = signal_handle::create({SIGUSR1}).value();
    b.set_multiplexer(m.get());
    auto op = unio::connect(unio::async_wait_signal(b), tell{&there});
    op.start();
    (void)m->try_run();
    waits = true;
    while (there.empty()) (void)m->run(1);
  });
  auto op = unio::connect(unio::async_wait_signal(a), tell{&here});
  op.start();
  while (!waits) std::this_thread::yield();
  ::kill(::getpid(), SIGUSR1);
  while (here.empty()) (void)m_->run(1);
  other.join();
  EXPECT_EQ(here, std::vector<int>{SIGUSR1});
  EXPECT_EQ(there, std::vector<int>{SIGUSR1});
}

} // namespace
