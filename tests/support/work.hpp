// Work for executors to run, threads, waiting for them, and an end for tests that hang.

#pragma once

#include "support/test.hpp"

#include <condition_variable>

namespace test {

/// Calls a function when it is run, another when it is dropped.
template <class Run, class Drop> struct calling : unio::work {
  calling(Run r, Drop d) : work(&invoke), run(std::move(r)), drop(std::move(d)) {}
  static void invoke(unio::work& w, bool runs) noexcept {
    auto& self = static_cast<calling&>(w);
    runs ? self.run() : self.drop();
  }
  Run run;
  Drop drop;
};
/// A function that must not be dropped.
template <class Run> auto call(Run r) {
  return calling(std::move(r), [] { ADD_FAILURE() << "dropped"; });
}

/// Counts elsewhere how often it is run and dropped.
struct counting_work : unio::work {
  counting_work() : work(&invoke) {}
  static void invoke(unio::work& w, bool run) noexcept {
    auto& self = static_cast<counting_work&>(w);
    (run ? self.ran : self.dropped)->fetch_add(1, std::memory_order_release); // it may be posted again
  }
  std::atomic<int>* ran = nullptr;
  std::atomic<int>* dropped = nullptr;
};

/// Threads that each run `body()` or `body(number)`.
class threads {
 public:
  template <class Body> threads(int n, Body body) {
    for (int i = 0; i != n; ++i)
      if constexpr (std::is_invocable_v<Body, int>) {
        all_.emplace_back(body, i);
      } else {
        all_.emplace_back(body);
      }
  }
  void join() { all_.clear(); }

 private:
  std::vector<std::jthread> all_;
};

/// Counts its end. What a move leaves behind does not count.
struct counts_destruction {
  explicit counts_destruction(std::atomic<int>& n) noexcept : count(&n) {}
  counts_destruction(counts_destruction&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  counts_destruction& operator=(counts_destruction&&) = delete;
  ~counts_destruction() {
    if (count != nullptr) ++*count;
  }
  std::atomic<int>* count;
};

inline void until(std::atomic<int> const& n, int wanted) {
  while (n.load(std::memory_order_acquire) < wanted) std::this_thread::yield();
}

/// Ends the program if a test hangs: a wake-up that was lost would otherwise take all of the suite's time.
class watchdog {
 public:
  explicit watchdog(std::chrono::seconds limit = std::chrono::seconds(60))
      : thread_([this, limit] { watch(limit); }) {}
  ~watchdog() {
    {
      std::lock_guard const lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    std::fprintf(stderr, "a wake-up was lost: the test hangs\n");
    std::abort();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace test
