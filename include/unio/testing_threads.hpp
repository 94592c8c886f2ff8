// unio/testing_threads.hpp: simulated threads, which go on in every order that a seed draws.
//
//   thread_options   the seeds, and how far a run may go
//   explore          runs a program once for each seed, until one fails
//   exploration      what was found, and how to see it again
//   require          a program's own verdict
//   schedule_seed    the seed of this run
//
// The threads are real ones, of which exactly one runs. At each point the seed decides which goes on: before
// and after each system call of unio, at each function of pthreads, and at each atomic operation of code that
// was compiled with -fsanitize=thread and linked without it.
//
//   auto const found = unio::testing::explore({.seeds = 2000}, [] {
//     int n = 0;
//     std::mutex m;
//     std::thread other([&] { std::lock_guard const lock(m); ++n; });
//     { std::lock_guard const lock(m); ++n; }
//     other.join();
//     unio::testing::require(n == 2, "both have counted");
//   });
//   EXPECT_TRUE(found.passed()) << found.report;
//
// Link with unio::testing_threads, which takes the place of pthread functions in the whole program: in a
// program of tests only.

#pragma once

#include <unio/config.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace unio::inline v0_1::testing {

/// What explore() does.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Cost           none
struct thread_options {
  std::uint64_t first_seed = 0;
  std::uint64_t seeds = 1000;        ///< runs; each has the next seed
  bool stop_at_first = true;         ///< ends with the first run that fails
  bool slow_threads = true;          ///< some runs let short timeouts pass although a thread could go on
  std::uint64_t max_steps = 200'000; ///< points of a run; more: a livelock
  std::chrono::nanoseconds max_time = std::chrono::hours(1);       ///< virtual time of a run; more: a hang
  std::chrono::milliseconds max_real_time = std::chrono::hours(1); ///< of all runs; no other begins after it
};

/// How a run has ended.
enum class run_end : std::uint8_t {
  returned,  ///< the program has returned
  failed,    ///< require() was not met
  deadlock,  ///< no thread can go on, and nothing is due
  hang,      ///< thread_options::max_time has passed
  livelock,  ///< thread_options::max_steps
  exception, ///< the program has thrown
  ended,     ///< it has ended the process: a signal, abort(), exit()
  stuck,     ///< for seconds of real time no thread has come to a point
};

/// What explore() has found.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Cost           none
struct exploration {
  std::uint64_t runs = 0;
  std::uint64_t failures = 0;
  std::uint64_t steps = 0;         ///< points of all runs
  std::uint64_t fingerprint = 0;   ///< of all runs: equal for the same program, options and seeds
  std::uint64_t seed = 0;          ///< of the first run that has failed
  run_end end = run_end::returned; ///< and how it has ended
  std::string report; ///< and why: which thread waits for what, the last points, a line that runs it again

  [[nodiscard]] bool passed() const noexcept { return failures == 0; }
};

/// Runs `program` once for each seed, in a child process of its own: what a run leaves behind, static objects
/// included, no other run finds. In the child the calling thread is the first simulated thread.
///
/// The way in which a thread is chosen varies with the seed: any of them at each point; seldom another one;
/// or by priorities that change at a few points (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized
/// Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010). No single one finds everything.
///
/// Simulated are, apart from the calls of unio's own table of system calls: threads, mutexes, condition
/// variables, locks of readers and writers, semaphores and once of pthreads, and so those of the standard
/// library, its futexes (atomic::wait, latches, guards of static objects), sleeping, yielding and the clocks.
/// A testing::simulation that the program makes carries its threads. Without one, epoll waits for real
/// descriptors; there is no io_uring. `std::thread::hardware_concurrency()` is 2.
///
/// Not carried: handlers of signals, fork() and exec, threads that were there before, code that enters the
/// kernel by itself, calls that wait for real descriptors other than by poll and epoll, pthread_cancel(),
/// barriers, robust mutexes. Atomics are sequentially consistent: what a weaker order permits is not seen.
/// Nor are races between plain accesses, which ThreadSanitizer finds. A loop without a point (a load of an
/// atomic, say, in code that was compiled without -fsanitize=thread) ends in run_end::stuck. It excludes
/// sanitizers. Objects of the main thread with thread storage duration are not destroyed.
///
/// That nothing was found is no proof: an order that takes several switches at exact points may need
/// thousands of seeds. In code without points at its atomics, unio's own included, orders between two of them
/// are not seen. In place of io_uring there is the simulation's kernel: what a real one does at a moment of
/// its own choice, only a real one shows.
///
/// Effects       if the environment has UNIO_THREADS_SEED, runs that seed alone, and prints its report
/// Returns       what was found
/// Errors        none: what cannot be done ends the program with a message. std::bad_alloc
/// Preconditions the process has one thread, which is not simulated
/// Time          virtual: moves only while no thread can go on, with each look at a clock by 0.1 µs, and in
///               some runs (slow_threads) by up to 20 ms
/// Concurrency   none
/// Cost          some 0.5 ms of one processor for a run of some hundred points
[[nodiscard]] exploration explore(thread_options const& options, std::function<void()> const& program);

/// In a program that explore() runs: ends the run as failed, if `is_met` is false.
///
/// Effects       as said; outside of such a program: ends the process with a message
/// Concurrency   any thread of the program
/// Cost          none, if it is met
void require(bool is_met, char const* what) noexcept;

/// In a program that explore() runs: its seed; simulation_options::from_seed(schedule_seed()) varies both.
/// Elsewhere 0.
///
/// Concurrency   any thread of the program
/// Cost          none
[[nodiscard]] std::uint64_t schedule_seed() noexcept;

} // namespace unio::testing
