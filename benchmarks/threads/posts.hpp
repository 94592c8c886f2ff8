// Posts from other threads: what all programs of that part of the table share.
//
//   window      what a producer has posted that has not run yet
//   run_posts   one run
//   add_posts   the rows of a subject
//
// Each producer has a window of 1,024 posts. It fills a quarter, then the next, and sleeps while the next one
// has not run: so memory stays warm, no queue grows, and no subject is ahead by more than that.
#pragma once

#include "support/measure.hpp"
#include "threads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace threads_bench {

using namespace benchmarks;

/// Outlives whatever runs what was posted.
class window {
 public:
  static constexpr unsigned quarter = 256;
  static constexpr unsigned posts = 4 * quarter;

  class alignas(64) part {
   public:
    /// All that a post does when it runs.
    void ran() noexcept {
      if (left_.fetch_sub(1, std::memory_order_release) == 1) left_.notify_one();
    }

   private:
    friend class window;
    void wait() const noexcept {
      for (unsigned n; (n = left_.load(std::memory_order_acquire)) != 0;) left_.wait(n);
    }
    std::atomic<unsigned> left_ = 0;
  };

  /// Post number `i` of the window belongs to it.
  part& part_of(unsigned i) noexcept { return parts_[i / quarter]; }

  /// Calls `post(i)` so often, and returns when all have run.
  template <class Post> void fill(std::uint64_t operations, Post& post) {
    for (unsigned at = 0; operations != 0; at = (at + quarter) % window::posts) {
      part& p = part_of(at);
      p.wait();
      const auto n = static_cast<unsigned>(std::min<std::uint64_t>(operations, quarter));
      p.left_.store(n, std::memory_order_relaxed);
      for (unsigned i = at; i < at + n; ++i) post(i);
      operations -= n;
    }
    for (part const& p : parts_) p.wait();
  }

 private:
  std::array<part, posts / quarter> parts_;
};

/// `make_post(window&)` returns what fill() calls. `run()` runs what is posted until `finish()` is called,
/// by a producer's thread when all has run. Where other threads run it, both do nothing.
template <class MakePost, class Run, class Finish>
sample run_posts(std::vector<window>& windows, std::uint64_t operations, MakePost make_post, Run run,
                 Finish finish) {
  std::latch begin(1);
  std::latch are_ready(static_cast<std::ptrdiff_t>(windows.size()));
  std::atomic<std::size_t> running = windows.size();
  std::vector<std::jthread> producers;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::uint64_t share = operations / windows.size() + (i < operations % windows.size() ? 1 : 0);
    producers.emplace_back([&, i, share] {
      auto post = make_post(windows[i]);
      are_ready.count_down();
      begin.wait();
      windows[i].fill(share, post);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
    });
  }
  are_ready.wait();
  return measure_with_processor(operations, [&] {
    begin.count_down();
    run();
    for (std::jthread& p : producers) p.join();
  });
}

enum class runs_on { one_thread, pool };

/// `f(windows, operations)` does one run.
template <class F>
void add_posts(std::vector<benchmark_case>& to, std::string const& subject, runs_on where, F f) {
  for (const unsigned producers : {1u, 2u, 4u})
    to.push_back({subject,
                  {{"work", where == runs_on::pool ? "post to a pool" : "post to a thread"},
                   {"producers", std::to_string(producers)}},
                  [=](std::uint64_t operations) {
                    std::vector<window> windows(producers);
                    return f(windows, operations);
                  }});
}

} // namespace threads_bench
