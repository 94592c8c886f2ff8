// src/testing/threads/scheduler.hpp: real threads with one baton.
//
// Exactly one thread runs: the others wait for the baton. At each point the seed chooses who has it next.
// What makes a thread wait (a lock, a join, a descriptor) is state of the scheduler; nothing but the baton
// really blocks. All functions here are called by the thread that has the baton, so that nothing is locked.
//
//   point ──► choose ──► the same thread goes on, or another gets the baton
//   block ──► choose; none can go on: the earliest moment that a thread waits for; there is none: deadlock

#pragma once

#include "sys/calls.hpp"
#include "testing/random.hpp"
#include "testing/threads/record.hpp"

#include <unio/testing_threads.hpp>

#include <pthread.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace unio::inline v0_1::testing::threads {

// What a point is at. The entries of the table of system calls come first.
#define UNIO_OTHER_POINTS(X) \
  X(thread_begin)            \
  X(thread_create)           \
  X(thread_join)             \
  X(thread_detach)           \
  X(thread_end)              \
  X(mutex_lock)              \
  X(mutex_try_lock)          \
  X(mutex_unlock)            \
  X(condition_wait)          \
  X(condition_signal)        \
  X(condition_broadcast)     \
  X(reader_lock)             \
  X(writer_lock)             \
  X(rwlock_unlock)           \
  X(once)                    \
  X(semaphore_wait)          \
  X(semaphore_post)          \
  X(futex_wait)              \
  X(futex_wake)              \
  X(yield)                   \
  X(sleep)                   \
  X(clock)                   \
  X(atomic_load)             \
  X(atomic_store) X(atomic_exchange) X(atomic_fetch) X(atomic_compare) X(fence) X(system) X(barrier_wait)

#define UNIO_ENUMERATOR(name, parameters, arguments) call_##name,
#define UNIO_OTHER_ENUMERATOR(name) name,
enum class at : std::uint16_t {
  UNIO_SYSTEM_CALLS(UNIO_ENUMERATOR) UNIO_OTHER_POINTS(UNIO_OTHER_ENUMERATOR) count
};
#undef UNIO_ENUMERATOR
#undef UNIO_OTHER_ENUMERATOR
[[nodiscard]] char const* name_of(at where) noexcept;

/// What a thread waits for.
enum class need : std::uint8_t {
  nothing,
  thread,
  mutex,
  condition,
  rwlock,
  once,
  semaphore,
  futex,
  time,
  system,
  program,
  barrier
};

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// A simulated thread.
struct thread {
  int number = 0;
  std::uint32_t baton = 0; ///< 1: it was given it, and has not taken it yet. A futex
  need waits = need::nothing;
  bool timed_out = false; ///< why it waits no longer
  bool looked = false;    ///< of need::system: since the others last changed something
  bool has_ended = false;
  bool is_joined = false;
  at doing = at::thread_begin;
  void const* what = nullptr; ///< it waits for
  std::int64_t until = never;
  char const* waits_in = nullptr; ///< what it waits for in a simulated system, in words
  std::int64_t priority = 0;
  unsigned yields = 0;
  unsigned rounds = 0; ///< of destructors of its keys
  int stays = 0;       ///< > 0: it goes on at points: others would wait in the kernel for what it has locked
  int program = -1;    ///< of several: a thread's are its maker's
  pthread_t handle{};
  void* (*run)(void*) = nullptr;
  void* argument = nullptr;
};

extern constinit thread_local thread* me; ///< null: not simulated
extern constinit thread_local int inside; ///< > 0: the scheduler or a simulated system runs

[[nodiscard]] inline bool is_simulated() noexcept { return me != nullptr && inside == 0; }

/// No point lies in the scope of it.
struct guard {
  guard() noexcept { ++inside; }
  guard(guard const&) = delete;
  guard& operator=(guard const&) = delete;
  ~guard() { --inside; }
};

enum class way : std::uint8_t { undisturbed, uniform, sticky, priorities };

/// How threads are chosen.
struct strategy {
  way how = way::undisturbed;
  unsigned one_in = 1;  ///< sticky: points at which another may be chosen
  unsigned changes = 0; ///< priorities: points at which the running thread gets the lowest
  bool slow = false;

  [[nodiscard]] static strategy of_seed(std::uint64_t seed, bool slow_threads) noexcept;
};

class scheduler {
 public:
  /// `expected_steps`: of a run.
  scheduler(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected_steps,
            run_record& r);
  scheduler(scheduler const&) = delete;
  scheduler& operator=(scheduler const&) = delete;

  void point(at where) noexcept;
  void yield() noexcept;
  /// True: it was woken; false: time has come so far.
  bool block(need n, void const* what, std::int64_t until) noexcept;
  void wake_all(need n, void const* what) noexcept;
  /// Up to `n` of those that wait, chosen by the seed. Returns how many.
  int wake(need n, void const* what, int at_most) noexcept;
  /// Others that wait for the system look again.
  void system_changed() noexcept;

  /// A new thread, which waits for the baton.
  thread& add() noexcept;
  [[nodiscard]] thread* find(pthread_t handle) noexcept;
  void begin_thread(thread& t) noexcept; ///< on the new thread
  void end_thread() noexcept;            ///< on the one that ends
  /// Neither the calling thread nor another of its program goes on.
  [[noreturn]] void end_program() noexcept;

  void holds(void const* what) noexcept;
  void lets_go(void const* what) noexcept;

  [[nodiscard]] bool is_waiting(int number) const noexcept {
    return threads_[static_cast<std::size_t>(number)]->waits != need::nothing;
  }
  [[noreturn]] void end(run_end how, char const* why) noexcept;
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

  std::int64_t now = 1'000'000'000;
  random_source random;

 private:
  struct held {
    void const* what;
    int thread;
  };
  void step(at where) noexcept;
  [[nodiscard]] thread* choose(bool yields) noexcept;
  [[nodiscard]] thread& next_to_run() noexcept;
  [[nodiscard]] thread& another() noexcept;
  bool let_something_happen() noexcept;
  bool move_time(std::int64_t at_most) noexcept;
  void pass_baton(thread& to) noexcept;
  void note_turn(thread const& to) noexcept;
  void report_waiting(char const* title) noexcept;
  [[nodiscard]] int number_of(void const* what) noexcept;
  void take_baton(thread& t) noexcept;
  void await_end() noexcept;
  static void give_baton(thread& t) noexcept;

  thread_options const options_;
  std::uint64_t const seed_;
  strategy const strategy_;
  std::int64_t const begin_ = now;
  run_record& record_;
  std::vector<std::unique_ptr<thread>> threads_;
  std::vector<std::uint64_t> changes_; // steps at which a priority changes, the earliest last
  std::vector<held> held_;
  std::vector<void const*> known_; // objects, in the order in which they were first waited for
  static constexpr std::int64_t lowered = -(std::int64_t{1} << 40);
  std::int64_t below_all_ = lowered; // a priority that no thread has had
  std::int64_t below_others_ = 0;
  int leaving_ = 0; // the kernel's number of the thread that has ended last, until it is gone; 0: none
  unsigned in_a_row_ = 0;
  unsigned yields_in_a_row_ = 0; ///< of all threads, with nothing but loads in between
};

/// That of this run; null: there is none.
extern constinit scheduler* current;

extern constinit thread_local unsigned loads_in_a_row;

/// A point, where the calling thread is simulated.
inline void point(at where) noexcept {
  if (is_simulated()) [[likely]]
    current->point(where);
}

/// A load that orders nothing is a point only where a thread does little else: it waits for another one.
inline void relaxed_load() noexcept {
  constexpr unsigned many = 64;
  if (++loads_in_a_row % many == 0) [[unlikely]]
    point(at::atomic_load);
}

/// The calling thread is the first of a run.
void begin_run(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected_steps,
               run_record& r);
/// Has a run that comes to no point end by a signal, in real time.
void watch() noexcept;
void use_one_processor() noexcept;
/// Runs in place of the end of the process, when a run has ended by itself.
using run_ended = void (*)(run_record const&) noexcept;
extern constinit run_ended on_end;
/// Runs first of all on a new thread.
using thread_begun = void (*)(thread& t) noexcept;
extern constinit thread_begun on_begin_thread;

/// Makes the table of system calls the scheduler's.
void answer_system_calls() noexcept;
/// Before the first thread: the end of threads is the scheduler's to see.
void watch_ends() noexcept;
/// futex(2) on memory of this process: 0 or more, or -errno.
std::int64_t futex(std::uint32_t* word, int operation, std::uint32_t value, timespec const* timeout,
                   std::uint32_t bits) noexcept;
/// They are in the program if this is called.
void link_interposed() noexcept;
void link_atomics() noexcept;

/// Between CLOCK_REALTIME and CLOCK_MONOTONIC.
constexpr std::int64_t year_2020 = 1'577'836'800'000'000'000;

} // namespace unio::testing::threads
