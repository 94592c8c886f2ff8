// Many small tasks on a pool of two threads: what all programs of that part of the table share.
//
//   skynet   a tree in which each task starts ten others and adds up what they yield, down to so many leaves,
//            each of which yields its number; the operations of a run are the leaves, a power of ten
//   fib      Fibonacci numbers by fork and join: of a task's two halves it starts one and does the other
//            itself; the operations of a run are n
//   ring     a token that coroutines in a ring pass on by channels; the operations of a run are the hops
//
//   run_tasks      one run: the work once to warm up, then measured
//   by_callbacks   skynet and fib with functions that are posted, on any pool
//   add_trees, add_ring, add_callbacks   the rows of a subject
#pragma once

#include "support/measure.hpp"
#include "threads.hpp"

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <vector>

namespace threads_bench {

using namespace benchmarks;

inline constexpr unsigned children = 10;      // of a task of skynet
inline constexpr std::size_t ring_size = 500; // coroutines, and channels of one value each

/// The tasks of skynet with so many leaves.
inline std::uint64_t tasks_of_skynet(std::uint64_t leaves) {
  return (leaves * children - 1) / (children - 1);
}
inline std::uint64_t sum_of_skynet(std::uint64_t leaves) { return leaves * (leaves - 1) / 2; }

struct fibonacci {
  std::uint64_t value = 0;
  std::uint64_t calls = 1;
};
inline fibonacci fibonacci_of(std::uint64_t n) {
  fibonacci now;
  fibonacci next{.value = 1};
  for (; n != 0; --n) {
    fibonacci const after{.value = now.value + next.value, .calls = now.calls + next.calls + 1};
    now = next;
    next = after;
  }
  return now;
}

/// `work()` does it all and returns what was computed. It is done once before it is measured: then the
/// threads have their memory, and allocations are those of a program that has run for a while.
template <class F> sample run_tasks(std::uint64_t tasks, std::uint64_t expected, F&& work) {
  std::uint64_t got = work();
  const sample s = measure_with_processor(tasks, [&] { got += work(); });
  if (got != 2 * expected) throw std::runtime_error("the tasks have computed something else");
  return s;
}

/// `Poster` is made of a pool and has `post(f)`, `allocate(bytes)`, `deallocate(p, bytes)`.
template <class Poster> class by_callbacks {
 public:
  /// Preconditions  first of all
  void begin(Poster to) { pool_.emplace(to); }

  std::uint64_t skynet(std::uint64_t leaves) {
    return run([=, this](sum& to) { skynet(to, 0, leaves); });
  }
  std::uint64_t fib(std::uint64_t n) {
    return run([=, this](sum& to) { fib(to, n); });
  }

 private:
  // What several tasks add to. The last of them adds the total to the one above.
  struct sum {
    sum* above;
    std::atomic<unsigned> left;
    std::atomic<std::uint64_t> total = 0;
  };

  template <class F> std::uint64_t run(F begin) {
    all_.left.store(1, std::memory_order_relaxed);
    all_.total.store(0, std::memory_order_relaxed);
    pool_->post([=, this] { begin(all_); });
    is_done_.acquire();
    return all_.total.load(std::memory_order_relaxed);
  }

  sum& make(sum& above, unsigned parts) {
    return *new (pool_->allocate(sizeof(sum))) sum{.above = &above, .left = parts};
  }
  void add(sum& to, std::uint64_t value) {
    for (sum* s = &to;;) {
      s->total.fetch_add(value, std::memory_order_relaxed);
      if (s->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      if (s == &all_) return is_done_.release();
      value = s->total.load(std::memory_order_relaxed);
      sum* const above = s->above;
      pool_->deallocate(s, sizeof(sum));
      s = above;
    }
  }

  void skynet(sum& to, std::uint64_t first, std::uint64_t leaves) {
    if (leaves == 1) return add(to, first);
    sum& here = make(to, children);
    for (unsigned i = 0; i < children; ++i)
      pool_->post(
          [this, &here, first, i, each = leaves / children] { skynet(here, first + i * each, each); });
  }
  void fib(sum& to, std::uint64_t n) {
    sum* at = &to;
    for (; n >= 2; n -= 2) {
      sum& here = make(*at, 2);
      pool_->post([this, &here, n] { fib(here, n - 1); });
      at = &here;
    }
    add(*at, n);
  }

  std::optional<Poster> pool_;
  sum all_{.above = nullptr, .left = 0};
  std::binary_semaphore is_done_{0};
};

/// `on_pool(tasks, expected, prepare)` makes a pool and measures what `prepare(pool)` returns (run_tasks).
/// `skynet(pool, leaves)`, `fib(pool, n)` compute on it.
template <class OnPool, class Skynet, class Fib>
void add_trees(std::vector<benchmark_case>& to, std::string const& subject, OnPool on_pool, Skynet skynet,
               Fib fib) {
  to.push_back({subject, {{"work", "skynet"}}, [=](std::uint64_t leaves) {
                  return on_pool(tasks_of_skynet(leaves), sum_of_skynet(leaves),
                                 [=](auto& pool) { return [=, &pool] { return skynet(pool, leaves); }; });
                }});
  to.push_back({subject, {{"work", "fib"}}, [=](std::uint64_t n) {
                  const fibonacci f = fibonacci_of(n);
                  return on_pool(f.calls, f.value,
                                 [=](auto& pool) { return [=, &pool] { return fib(pool, n); }; });
                }});
}
/// `make_ring(pool)` makes the channels, and returns what lets the token go round so many times.
template <class OnPool, class MakeRing>
void add_ring(std::vector<benchmark_case>& to, std::string const& subject, OnPool on_pool,
              MakeRing make_ring) {
  to.push_back({subject, {{"work", "ring of channels"}}, [=](std::uint64_t hops) {
                  const std::uint64_t rounds = (hops + ring_size - 1) / ring_size;
                  return on_pool(rounds * ring_size, rounds * ring_size, [=](auto& pool) {
                    return [=, ring = make_ring(pool)]() mutable { return ring(rounds); };
                  });
                }});
}

/// skynet and fib by functions that are posted. `make_pool()` returns a pointer to a pool, of which a
/// `Poster` is made.
template <class Poster, class MakePool>
void add_callbacks(std::vector<benchmark_case>& to, std::string const& subject, MakePool make_pool) {
  const auto on_pool = [=](std::uint64_t tasks, std::uint64_t expected, auto prepare) {
    by_callbacks<Poster> callbacks; // outlives the threads of the pool
    auto const pool = make_pool();
    callbacks.begin(Poster{*pool});
    return run_tasks(tasks, expected, prepare(callbacks));
  };
  add_trees(
      to, subject, on_pool, [](auto& on, std::uint64_t leaves) { return on.skynet(leaves); },
      [](auto& on, std::uint64_t n) { return on.fib(n); });
}

} // namespace threads_bench
