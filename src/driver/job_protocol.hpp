// src/driver/job_protocol.hpp: how jobs reach the threads that may block, without a lock.
//
//   job_ring       a queue of bounded length: any thread pushes, any thread pops, who pushed takes back
//   job_protocol   such a ring, lanes whose jobs run one after the other, and who is woken
//
// A job is a number other than 0. Exactly one of two gets it: the worker that pops it, or the one that takes
// it back.
//
//   push:  tail + 1 (this cell is mine); job = j; turn = full         pop:  head + 1; j = exchange(job, 0);
//                                                                           turn = free; j = 0? the next
//   take back:  compare and exchange (job, j → 0)
//
// A lane is a ring that belongs to at most one worker at a time. Its bit in `waiting_` says that it has jobs
// and no worker; `taken` says that its bit is set or that a worker has it.
//
//   post to a lane: push; taken was false? taken = true, set the bit
//   a worker:       clear the bit; pop one, run it; more? set the bit. Otherwise taken = false, and look
//                   again: a poster that saw `taken` before has pushed before
//
// One worker at a time lingers: it looks for jobs for a while before it sleeps. While it does, posters wake
// no other.
//
//   post:  push (seq_cst)                     linger:  lingering = true; look, look, …
//          read lingering (seq_cst)                    lingering = false (seq_cst)
//          true? then wake no one                      look (seq_cst)
//
// If the poster reads true, its push comes before the lingerer's last look in the one order of the seq_cst
// operations. A thread that takes a job looks for more afterwards, and wakes a thread for it. The sleep
// itself is wake_gate's.
//
// tests/memory_model/jobs_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include "driver/shared/wake_gate.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::driver {

/// `Size` jobs at most, a power of two. After D. Vyukov's bounded queue for many producers and consumers
/// (2010), in which a cell may also be emptied where it stands.
template <std::uint64_t Size, template <class> class Atomic = std::atomic> class job_ring {
  static_assert((Size & (Size - 1)) == 0);
  static constexpr auto seq_cst = std::memory_order_seq_cst;

 public:
  using job = std::uint64_t;

  /// False: it is full. `where` is for take_back().
  bool push(job j, std::uint64_t& where) noexcept {
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      cell& c = cells_[at % Size];
      std::uint64_t const turn = c.turn.load(std::memory_order_acquire); // pairs with the release in pop()
      if (turn < free_for(at)) return false;
      if (turn > free_for(at)) {
        at = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        where = at;
        c.job_here.store(j, std::memory_order_relaxed); // the next store releases it
        c.turn.store(free_for(at) + 1, seq_cst);
        return true;
      }
    }
  }
  /// The oldest, or 0 if there is none, or none before one whose push has not ended.
  job pop() noexcept {
    std::uint64_t at = head_.load(seq_cst);
    for (;;) {
      cell& c = cells_[at % Size];
      std::uint64_t const turn = c.turn.load(seq_cst);
      if (turn <= free_for(at)) return 0;
      if (turn > free_for(at) + 1) {
        at = head_.load(seq_cst);
      } else if (head_.compare_exchange_weak(at, at + 1, seq_cst)) {
        job const j = c.job_here.exchange(0, std::memory_order_acq_rel);
        c.turn.store(free_for(at + Size), std::memory_order_release); // pairs with the acquire in push()
        if (j != 0) return j;
        ++at;
      }
    }
  }
  /// False: it was popped. For the thread that pushed it, before it pushes the same again.
  bool take_back(job j, std::uint64_t where) noexcept {
    return cells_[where % Size].job_here.compare_exchange_strong(j, 0, std::memory_order_acq_rel);
  }
  /// Whether pop() would find something, if only what was taken back.
  [[nodiscard]] bool empty() const noexcept {
    std::uint64_t const at = head_.load(seq_cst);
    return cells_[at % Size].turn.load(seq_cst) <= free_for(at);
  }

 private:
  struct cell {
    Atomic<std::uint64_t> turn{0}; // of position `at`: 2 · lap, and 1 more while it is full
    Atomic<std::uint64_t> job_here{0};
  };
  static constexpr std::uint64_t free_for(std::uint64_t at) noexcept { return at / Size * 2; }

  alignas(64) Atomic<std::uint64_t> tail_{0};
  alignas(64) Atomic<std::uint64_t> head_{0};
  alignas(64) std::array<cell, Size> cells_;
};

/// `Environment` is what the protocol stands on, the system's threads or a model's:
///
///   atomic<T>                 as std::atomic
///   ring_size, lane_size, lanes, threads   numbers; threads are those that share all jobs
///   run(job)                  performs it
///   sleep(self, bell, seen)   futex(2); may return for any reason
///   ring_bell(bell)           adds 1 to it, and wakes who sleeps there
///   may_linger(self), linger(self, came)   whether to; looks for a while until came() is true
///   all_busy()                a job was posted and none of the threads sleeps
///   ends(self)                for a model: whether a thread has worked enough
template <class Environment> class job_protocol {
  template <class T> using atomic = typename Environment::template atomic<T>;
  template <std::uint64_t Size> using ring = job_ring<Size, Environment::template atomic>;
  using gate = wake_gate<Environment::template atomic>;
  static constexpr auto seq_cst = std::memory_order_seq_cst;

 public:
  using job = std::uint64_t;
  static constexpr unsigned no_lane = Environment::lanes;

  explicit job_protocol(Environment& e) noexcept : env_(e) {}

  /// Has a thread run `j`: in `lane`, never while another job of that lane runs. False: so many wait already
  /// that it was not taken. `where` is for take_back().
  bool give(job j, unsigned lane, std::uint64_t& where) noexcept {
    if (lane == no_lane) {
      if (!ring_.push(j, where)) return false;
    } else {
      if (!lanes_[lane].jobs.push(j, where)) return false;
    }
    where = where << lane_bits | lane;
    if (lane != no_lane) {
      if (lanes_[lane].taken.exchange(true, seq_cst)) return true;
      waiting_.fetch_or(bit(lane), seq_cst);
    }
    call_one();
    return true;
  }
  /// False: a worker has it.
  bool take_back(job j, std::uint64_t where) noexcept {
    auto const lane = static_cast<unsigned>(where & ((1U << lane_bits) - 1));
    where >>= lane_bits;
    return lane == no_lane ? ring_.take_back(j, where) : lanes_[lane].jobs.take_back(j, where);
  }
  [[nodiscard]] bool has_work() const noexcept { return !ring_.empty() || waiting_.load(seq_cst) != 0; }

  /// One of the threads that share all jobs: `self` of 0 … threads - 1.
  void work(std::size_t self) noexcept {
    place& here = places_[self];
    for (bool rested = false; !env_.ends(self);) {
      if (run_one([] {})) {
        rested = false;
        continue;
      }
      if (!rested && env_.may_linger(self) && !lingering_.exchange(true, seq_cst)) {
        env_.linger(self, [this] { return has_work(); });
        lingering_.store(false, seq_cst);
        rested = true; // looks once more, and then sleeps
        continue;
      }
      std::uint32_t const seen = here.bell.load(seq_cst);
      gate_.lie_down(here.sleeper);
      if (!has_work()) env_.sleep(self, here.bell, seen);
      if (gate_.rise(here.sleeper) && !run_one([this] { gate_.answered(); })) {
        gate_.answered();
        if (has_work()) call_one();
      }
      rested = false;
    }
  }

  /// Takes one job and runs it; has another thread look if there are more. `taken()` is called between.
  template <class Taken> bool run_one(Taken taken) noexcept {
    // Neither the ring nor the lanes shall starve the other.
    bool const lane_first = (turns_.fetch_add(1, std::memory_order_relaxed) & 1) != 0;
    return lane_first ? run_of_lane(taken) || run_of_ring(taken) : run_of_ring(taken) || run_of_lane(taken);
  }

 private:
  static constexpr unsigned lane_bits = 8;
  static_assert(Environment::lanes <= 32);
  static constexpr std::uint32_t bit(unsigned lane) noexcept { return std::uint32_t{1} << lane; }

  struct alignas(64) place {
    typename gate::sleeper sleeper;
    atomic<std::uint32_t> bell{0};
  };
  struct lane_jobs {
    ring<Environment::lane_size> jobs;
    atomic<bool> taken{false};
  };

  template <class Taken> bool run_of_ring(Taken taken) noexcept {
    job const j = ring_.pop();
    if (j == 0) return false;
    taken();
    if (has_work()) call_one();
    env_.run(j);
    return true;
  }

  template <class Taken> bool run_of_lane(Taken taken) noexcept {
    if constexpr (Environment::lanes == 0) return false;
    std::uint32_t waiting = waiting_.load(seq_cst);
    for (; waiting != 0; waiting &= waiting - 1) {
      auto const n = static_cast<unsigned>(__builtin_ctz(waiting));
      if ((waiting_.fetch_and(~bit(n), seq_cst) & bit(n)) == 0) continue;
      lane_jobs& here = lanes_[n];
      job const j = here.jobs.pop();
      if (j != 0) {
        taken();
        if (has_work()) call_one();
        env_.run(j);
      }
      if (!here.jobs.empty()) {
        waiting_.fetch_or(bit(n), seq_cst);
      } else {
        here.taken.exchange(false, seq_cst);
        if (!here.jobs.empty() && !here.taken.exchange(true, seq_cst)) waiting_.fetch_or(bit(n), seq_cst);
      }
      if (j != 0) return true;
    }
    return false;
  }

  void call_one() noexcept {
    if (lingering_.load(seq_cst)) return;
    if (gate_.sleepers() == 0) return env_.all_busy();
    gate_.call_one(
        places_, [](place& p) -> typename gate::sleeper& { return p.sleeper; },
        [this](place& p) { env_.ring_bell(p.bell); }, [this] { return has_work(); });
  }

  Environment& env_;
  ring<Environment::ring_size> ring_;
  std::array<lane_jobs, Environment::lanes> lanes_;
  alignas(64) atomic<std::uint32_t> waiting_{0};
  atomic<bool> lingering_{false};
  gate gate_;
  atomic<std::uint32_t> turns_{0};
  std::array<place, Environment::threads> places_;
};

} // namespace unio::driver
