// A thread that runs a multiplexer of its own, and what tests of coroutines share.

#pragma once

#include "support/receivers.hpp"
#include "support/test.hpp"

#include <coroutine>
#include <exception>

namespace test {

/// Makes a multiplexer and runs it on a thread of its own until it ends; that thread also destroys it.
class other_thread {
 public:
  other_thread() {
    thread_ = std::thread([this] {
      {
        std::unique_ptr<unio::io_multiplexer> const made = unio::io_multiplexer::best_available(1).value();
        unio::timer_handle never(unio::deadline::none(), made.get());
        started const sleep{unio::async_wait(never)};
        multiplexer_ = made.get();
        begun_.store(true);
        begun_.notify_one();
        while (!last_.ran) (void)made->run();
      }
      gone_.store(true);
      gone_.notify_all();
    });
    begun_.wait(false);
  }
  other_thread(other_thread const&) = delete;
  other_thread& operator=(other_thread const&) = delete;
  ~other_thread() { end(); }

  /// Has the multiplexer destroyed, and waits for that.
  void end() {
    if (!thread_.joinable()) return;
    multiplexer_->post(last_); // it may end while a wake() is still looking at it; post() it waits for
    gone_.wait(false);
    thread_.join();
  }
  [[nodiscard]] unio::io_multiplexer& multiplexer() noexcept { return *multiplexer_; }
  [[nodiscard]] unio::multiplexer_executor executor() noexcept { return multiplexer_->executor(); }
  [[nodiscard]] std::thread::id id() const noexcept { return thread_.get_id(); }

 private:
  unio::io_multiplexer* multiplexer_ = nullptr;
  struct last : unio::work {
    last() noexcept : work([](unio::work& w, bool) noexcept { static_cast<last&>(w).ran = true; }) {}
    bool ran = false; // its thread's
  };

  last last_;
  std::atomic<bool> begun_{false}, gone_{false};
  std::thread thread_;
};

inline std::unique_ptr<unio::io_multiplexer> a_multiplexer(int threads = 1) {
  return unio::io_multiplexer::best_available(threads).value();
}

/// Counts how many of it live.
class counted {
 public:
  explicit counted(std::atomic<int>& n) noexcept : n_(&n) { ++*n_; }
  counted(counted const& other) noexcept : n_(other.n_) { ++*n_; }
  counted& operator=(counted const&) = delete;
  ~counted() { --*n_; }

 private:
  std::atomic<int>* n_;
};

/// An awaitable that knows no environment: it suspends, and set() resumes it, from any thread.
class foreign_event {
 public:
  foreign_event() = default;
  foreign_event(foreign_event const&) = delete;
  foreign_event& operator=(foreign_event const&) = delete;

  class awaiter {
   public:
    explicit awaiter(foreign_event& e) noexcept : event_(e) {}
    awaiter(awaiter const&) = delete;
    awaiter& operator=(awaiter const&) = delete;
    ~awaiter() {
      void* mine = waiting_;
      event_.state_.compare_exchange_strong(mine, nullptr);
    }
    static bool await_ready() noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
      waiting_ = h.address();
      void* expected = nullptr;
      if (!event_.state_.compare_exchange_strong(expected, waiting_)) return false; // it was set
      return true;
    }
    static int await_resume() noexcept { return 7; }

   private:
    foreign_event& event_;
    void* waiting_ = nullptr;
  };
  awaiter operator co_await() noexcept { return awaiter(*this); }

  /// True if it resumed a coroutine.
  bool set() noexcept {
    void* const before = state_.exchange(this);
    if (before == nullptr || before == this) return false;
    std::coroutine_handle<>::from_address(before).resume();
    return true;
  }
  [[nodiscard]] bool has_waiter() const noexcept {
    void* const s = state_.load();
    return s != nullptr && s != this;
  }

 private:
  std::atomic<void*> state_{nullptr};
};

/// Awaits what a callable does with the handle: the least foreign awaitable. `F` returns void, bool or a
/// handle.
template <class F> struct suspends_with {
  F f;
  static bool await_ready() noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> h) { return f(h); }
  static void await_resume() noexcept {}
};
template <class F> suspends_with(F) -> suspends_with<F>;

struct failure : std::exception {
  explicit failure(int n) noexcept : number(n) {}
  int number;
};

} // namespace test
