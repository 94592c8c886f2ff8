// A run: some processes that lock, count and unlock again and again, all beginning at the same moment.
//
//   scene        how many they are, how many entities each locks at once, whether all lock the same ones
//   place        what a lock is made of: a folder, and memory that they share
//   user_memory  what a process writes down
//   use          what each process does with a lock of class L
//   run_users    the run, its figures, and whether the lock excluded
//
//   preparing ──► counting ──────► timing ────────► holding
//                 no clock:        each wait        only if contended: one
//                 locks/s          by the clock     holds, the others wait
#pragma once

#include "support/histogram.hpp"
#include "support/subject.hpp"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <string>

namespace locks_bench {

inline constexpr unsigned most_users = 32;
inline constexpr unsigned most_entities = 8;
inline constexpr unsigned most_numbers = most_users * most_entities;

struct scene {
  unsigned users;
  unsigned entities;
  bool is_contended;
};

// The primitives in memory, a cache line to each. In a file, as memory_map's are.
struct lock_memory {
  struct alignas(64) mutex_line {
    pthread_mutex_t mutex;
  };
  struct alignas(64) word_line {
    std::atomic<std::uint32_t> word = 0;
  };
  mutex_line mutexes[most_numbers];
  word_line words[most_numbers];
};

/// What a user locks: numbers below most_numbers, ascending.
struct place {
  std::string folder; // of this run alone, with an empty folder "files"
  lock_memory* memory;
  unsigned first;
  unsigned count;

  /// The entity of a number. Not neighbours: the kernel would make one lock of two that touch each other.
  static constexpr std::uint64_t entity_value(unsigned number) noexcept {
    return std::uint64_t{64} * (number + 1);
  }
};

enum phase : std::uint32_t { preparing, counting, timing, holding };

struct alignas(64) user_memory {
  std::atomic<std::uint64_t> locks = 0; // that it had, until now; read while it goes on
  alignas(64) std::uint64_t waited_ns = 0;
  benchmarks::histogram waits; // in the timing phase
  std::uint64_t held_up_ns = 0;
  std::uint64_t held_up_cpu_ns = 0;
  std::atomic<bool> has_failed = false;
  char failure[200] = {};
};

/// What the processes of a run share.
struct run_memory {
  alignas(64) std::atomic<std::uint32_t> now = preparing;
  alignas(64) std::atomic<std::uint32_t> ready = 0;
  std::atomic<std::uint32_t> has_left =
      0; // the timing phase, and does not wait for what the first is going to hold
  std::atomic<std::uint32_t> is_held = 0;
  std::atomic<std::uint32_t> waiting = 0;
  std::atomic<std::uint32_t> finished = 0;
  /// Neither atomic nor kept in a register: whoever loses an update did not have the lock.
  alignas(64) std::uint64_t volatile counters[most_users][most_entities] = {};
  user_memory users[most_users];
};

inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec t;
  ::clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

void sleep_ns(std::uint64_t ns);
/// Sleeps while the word, which processes share, has the value.
void wait_while(std::atomic<std::uint32_t> const& word, std::uint32_t value);
void set_and_wake(std::atomic<std::uint32_t>& word, std::uint32_t value);
/// Asks again and again until it is so. Throws when that takes too long.
void wait_until(std::function<bool()> const& is_so, char const* what);

inline constexpr std::uint64_t hold_ns = 20'000'000;

/// One process. L(place const&); acquire() locks, and returns what unlocks at its end.
template <class L> class user {
 public:
  user(run_memory& all, place const& where, scene const& s, unsigned self)
      : all_(all),
        mine_(all.users[self]),
        counters_(all.counters[s.is_contended ? 0 : self]),
        lock_(where),
        entities_(s.entities),
        has_to_hold_(s.is_contended && s.users > 1),
        others_(s.users - 1),
        is_first_(self == 0) {}

  void run() {
    for (int i = 0; i < 16; ++i) count_alone(); // pages, caches
    all_.ready.fetch_add(1);
    wait_while(all_.now, preparing);
    while (is_in(counting)) count_alone();
    do count_timed();
    while (is_in(timing));
    if (has_to_hold_) is_first_ ? hold() : be_held_up();
  }

 private:
  [[nodiscard]] bool is_in(phase p) const noexcept { return all_.now.load(std::memory_order_relaxed) == p; }

  void count() noexcept {
    for (unsigned i = 0; i < entities_; ++i) counters_[i] = counters_[i] + 1;
  }
  void note_lock() noexcept {
    mine_.locks.store(mine_.locks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void count_alone() {
    {
      [[maybe_unused]] auto const held = lock_.acquire();
      count();
    }
    note_lock();
  }
  void count_timed() {
    {
      const std::uint64_t before = clock_ns(CLOCK_MONOTONIC);
      [[maybe_unused]] auto const held = lock_.acquire();
      const std::uint64_t waited = clock_ns(CLOCK_MONOTONIC) - before;
      count();
      mine_.waits.add(waited);
      mine_.waited_ns += waited;
    }
    note_lock();
  }
  void hold() {
    wait_until([&] { return all_.has_left.load() == others_; }, "a user does not get its last lock");
    {
      [[maybe_unused]] auto const held = lock_.acquire();
      count();
      set_and_wake(all_.is_held, 1);
      wait_until([&] { return all_.waiting.load() == others_; }, "the others do not come to wait");
      sleep_ns(hold_ns);
    }
    note_lock();
  }
  void be_held_up() {
    all_.has_left.fetch_add(1);
    wait_while(all_.is_held, 0);
    all_.waiting.fetch_add(1);
    const std::uint64_t before = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t cpu_before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    {
      [[maybe_unused]] auto const held = lock_.acquire();
      mine_.held_up_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
      mine_.held_up_ns = clock_ns(CLOCK_MONOTONIC) - before;
      count();
    }
    note_lock();
  }

  run_memory& all_;
  user_memory& mine_;
  std::uint64_t volatile* counters_;
  L lock_;
  unsigned entities_;
  bool has_to_hold_;
  std::uint32_t others_;
  bool is_first_;
};

template <class L> void use(run_memory& all, place const& where, scene const& s, unsigned self) noexcept {
  try {
    user<L>(all, where, s, self).run();
  } catch (std::exception const& e) {
    user_memory& mine = all.users[self];
    std::strncpy(mine.failure, e.what(), sizeof mine.failure - 1);
    mine.has_failed.store(true);
  }
  all.finished.fetch_add(1);
}

/// `ms`: how long they count, and are timed. Throws what a user failed with, and if the lock did not exclude.
benchmarks::sample run_users(scene const& s, std::uint64_t ms,
                             void (*use)(run_memory&, place const&, scene const&, unsigned) noexcept);

} // namespace locks_bench
