// Simulated threads: what they are made of (unio/testing_threads.hpp). Programs with a defect that some order
// of threads shows, and without one; time; reports; the same run again.

#include "support/posix.hpp"
#include "support/test.hpp"
#include "threads/support.hpp"

#include <condition_variable>
#include <latch>
#include <semaphore>
#include <shared_mutex>

namespace {

using namespace test;
using namespace threads_tests;

template <class F> void twice_at_once(F f) {
  std::thread other(f);
  f();
  other.join();
}

// ---- what is right ----

TEST(simulated_threads, find_nothing_in_a_program_that_is_right) {
  expect_no_failure(300, [] {
    int n = 0;
    std::mutex m;
    twice_at_once([&] {
      std::lock_guard const lock(m);
      ++n;
    });
    require(n == 2, "both have counted");
  });
}

TEST(simulated_threads, carry_what_the_standard_library_offers) {
  expect_no_failure(200, [] {
    std::latch begin(3);
    std::binary_semaphore may_go(0);
    std::shared_mutex shared;
    std::atomic<int> word{0};
    std::jthread first([&](std::stop_token stop) {
      begin.count_down();
      may_go.acquire();
      {
        std::shared_lock const lock(shared);
      }
      word = 1;
      word.notify_all();
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    std::jthread second([&] {
      begin.arrive_and_wait();
      {
        std::unique_lock const lock(shared);
      }
      may_go.release();
      word.wait(0);
    });
    begin.arrive_and_wait();
    second.join();
    first.request_stop();
    first.join();
    require(word == 1, "the first has gone on");
  });
}

TEST(simulated_threads, initialise_once_while_others_wait) {
  expect_no_failure(200, [] {
    std::once_flag once;
    int calls = 0;
    twice_at_once([&] {
      std::call_once(once, [&] {
        std::this_thread::sleep_for(1ms);
        ++calls;
      });
      require(calls == 1, "call_once");
      static int const value = [] {
        std::this_thread::sleep_for(1ms);
        return 7;
      }();
      require(value == 7, "a static object");
    });
  });
}

TEST(simulated_threads, initialise_once_more_after_an_exception) {
  expect_no_failure(100, [] {
    std::once_flag once;
    std::atomic<int> calls{0};
    twice_at_once([&] {
      try {
        std::call_once(once, [&] {
          if (++calls == 1) throw std::runtime_error("the first time");
        });
      } catch (std::runtime_error const&) {
      }
    });
    require(calls == 2, "after the exception another thread has tried");
  });
}

TEST(simulated_threads, lock_recursively_and_for_a_time) {
  expect_no_failure(100, [] {
    std::recursive_mutex again;
    std::timed_mutex timed;
    std::unique_lock const held(timed);
    std::thread([&] {
      std::lock_guard const one(again), two(again);
      auto const begin = std::chrono::steady_clock::now();
      require(!timed.try_lock_for(3s), "it is held");
      auto const passed = std::chrono::steady_clock::now() - begin;
      require(passed >= 3s && passed < 4s, "3 s of virtual time");
    }).join();
  });
}

// ---- what is wrong ----

TEST(simulated_threads, find_a_wake_up_that_is_lost) {
  expect_end(run_end::deadlock, 1000, [] {
    std::atomic<bool> flag{false};
    std::mutex m;
    std::condition_variable c;
    std::thread other([&] {
      flag = true;
      c.notify_one();
    });
    {
      std::unique_lock lock(m);
      while (!flag) c.wait(lock);
    }
    other.join();
  });
}

TEST(simulated_threads, report_who_holds_what_others_wait_for) {
  exploration const e = expect_end(run_end::deadlock, 1000, [] {
    std::mutex a, b;
    std::thread other([&] {
      std::lock_guard const first(a);
      std::lock_guard const second(b);
    });
    {
      std::lock_guard const first(b);
      std::lock_guard const second(a);
    }
    other.join();
  });
  EXPECT_NE(e.report.find("T0 at mutex_lock, waits for mutex #0, held by T1, holds #1"), std::string::npos)
      << e.report;
  EXPECT_NE(e.report.find("T1 at mutex_lock, waits for mutex #1, held by T0, holds #0"), std::string::npos)
      << e.report;
  EXPECT_NE(e.report.find("again: UNIO_THREADS_SEED=" + std::to_string(e.seed) + " "), std::string::npos);
}

TEST(simulated_threads, find_an_update_that_is_lost_between_two_atomic_operations) {
  exploration const e = expect_end(run_end::failed, 1000, [] {
    std::atomic<int> n{0};
    twice_at_once([&] { n = n + 1; });
    require(n == 2, "both have counted");
  });
  EXPECT_NE(e.report.find("both have counted"), std::string::npos) << e.report;
}

TEST(simulated_threads, find_an_update_that_is_lost_in_destructors_of_thread_local_objects) {
  expect_end(run_end::failed, 1000, [] {
    static int n = 0;
    static std::mutex m;
    struct counted {
      bool is_used = false;
      ~counted() {
        int const before = n;
        {
          std::lock_guard const lock(m);
        }
        n = before + 1;
      }
    };
    auto const use = [] {
      static thread_local counted c;
      c.is_used = true;
    };
    std::thread first(use), second(use);
    first.join();
    second.join();
    require(n == 2, "both have counted");
  });
}

TEST(simulated_threads, tell_a_hang_a_livelock_and_an_exception_apart) {
  expect_end(run_end::hang, 1, [] { std::this_thread::sleep_for(24h); });
  exploration const e = explore({.seeds = 1, .max_steps = 1000}, [] {
    std::atomic<bool> volatile flag{false}; // or the compiler does without it
    while (!flag) continue;
  });
  EXPECT_EQ(e.end, run_end::livelock) << e.report;
  exploration const thrown = expect_end(run_end::exception, 1, [] { throw std::runtime_error("a reason"); });
  EXPECT_NE(thrown.report.find("a reason"), std::string::npos) << thrown.report;
  expect_end(run_end::ended, 1, [] { (void)std::raise(SIGSEGV); });
  expect_end(run_end::ended, 1, [] { ::_exit(0); });
}

// ---- time ----

TEST(simulated_threads, wait_in_virtual_time) {
  auto const begin = std::chrono::steady_clock::now();
  expect_no_failure(20, [] {
    std::mutex m;
    std::condition_variable c;
    auto const began = std::chrono::steady_clock::now();
    std::thread other([] {
      for (int i = 0; i != 500; ++i) std::this_thread::sleep_for(1ms);
    });
    {
      std::unique_lock lock(m);
      require(!c.wait_for(lock, 5s, [] { return false; }), "there is no notification");
    }
    auto const passed = std::chrono::steady_clock::now() - began;
    require(passed >= 5s && passed < 6s, "5 s have passed");
    other.join();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s); // of real time; virtual: 100 s
}

TEST(simulated_threads, let_time_pass_for_a_loop_that_yields) {
  expect_no_failure(50, [] {
    std::atomic<bool> done{false};
    std::thread other([&] {
      std::this_thread::sleep_for(10s);
      done = true;
    });
    while (!done) std::this_thread::yield();
    other.join();
  });
}

// ---- the same again ----

void a_bit_of_everything() {
  std::mutex m;
  std::condition_variable c;
  std::latch all(3);
  std::atomic<int> turns{0};
  bool go = false;
  auto const work = [&] {
    all.arrive_and_wait();
    std::unique_lock lock(m);
    c.wait_for(lock, 1ms * (1 + turns), [&] { return go; });
    ++turns;
  };
  std::thread a(work), b(work);
  all.arrive_and_wait();
  {
    std::lock_guard const lock(m);
    go = unio::testing::schedule_seed() % 2 == 0;
  }
  c.notify_all();
  a.join();
  b.join();
}

TEST(simulated_threads, go_the_same_way_in_every_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe"); // the program begins anew, at other addresses
  exploration const here = explore({.seeds = 100}, a_bit_of_everything);
  EXPECT_TRUE(here.passed()) << here.report;
  EXPECT_EXIT(
      {
        std::fprintf(
            stderr, "%llx.",
            static_cast<unsigned long long>(explore({.seeds = 100}, a_bit_of_everything).fingerprint));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0),
      [&] {
        char text[32];
        std::snprintf(text, sizeof text, "%llx\\.", static_cast<unsigned long long>(here.fingerprint));
        return std::string(text);
      }());
  EXPECT_NE(explore({.first_seed = 1, .seeds = 100}, a_bit_of_everything).fingerprint, here.fingerprint);
}

// Which heap and which stack a thread has depends on those that have ended before.
void what_depends_on_addresses() {
  std::atomic<int> turns{0};
  auto const work = [&] {
    int const here = 0;
    auto const memory = std::make_unique<int>(0);
    for (void const* const p : {static_cast<void const*>(&here), static_cast<void const*>(memory.get())})
      for (auto left = reinterpret_cast<std::uintptr_t>(p) / 64 % 61; left != 0; --left) ++turns;
  };
  for (int round = 0; round < 4; ++round) {
    std::thread threads[4];
    for (std::thread& t : threads) t = std::thread(work);
    for (std::thread& t : threads) t.join();
  }
}

TEST(simulated_threads, have_the_same_heap_and_stack_each_time) {
  exploration const first = explore({.seeds = 20}, what_depends_on_addresses);
  EXPECT_TRUE(first.passed()) << first.report;
  for (int time = 0; time < 20; ++time)
    ASSERT_EQ(explore({.seeds = 20}, what_depends_on_addresses).fingerprint, first.fingerprint) << time;
}

// Runs the seed that was found alone, and compares.
void expect_same_alone(exploration const& found, std::function<void()> const& program) {
  ASSERT_EQ(::setenv("UNIO_THREADS_SEED", std::to_string(found.seed).c_str(), 1), 0);
  ::testing::internal::CaptureStderr();
  exploration const again = explore({.seeds = 1000}, program);
  std::string const printed = ::testing::internal::GetCapturedStderr();
  ::unsetenv("UNIO_THREADS_SEED");
  EXPECT_EQ(again.runs, 1u);
  EXPECT_EQ(again.end, found.end);
  EXPECT_EQ(again.report, found.report);
  EXPECT_EQ(printed, found.report);
}

TEST(simulated_threads, replay_the_seed_that_failed) {
  auto const program = [] {
    std::atomic<int> n{0};
    twice_at_once([&] { n = n + 1; });
    require(n == 2, "both have counted");
  };
  expect_same_alone(expect_end(run_end::failed, 1000, program), program);
}

TEST(simulated_threads, replay_a_run_whose_length_varies_with_the_seed) {
  for (std::uint64_t seed = 1; seed != 15; ++seed) {
    auto const program = [seed] {
      std::atomic<int> n{0};
      twice_at_once([&] {
        for (std::uint64_t i = 0; i != 10 + schedule_seed() % 5 * 40; ++i) n = n + 1;
      });
      require(schedule_seed() != seed, "another seed");
    };
    expect_same_alone(expect_end(run_end::failed, seed + 1, program), program);
  }
}

} // namespace
