// unio/detail/children.hpp: coroutines that run side by side, and the one that waits for all of them.
//
// Here because when_all, timeout and task_group are built on it, and the compiler needs their layout.
//
//   children   their environment, how many still run, the coroutine that resumes after the last, how to stop
//              them
//
// Life:  begin ──► children run ──► the last has ended ──► the caller resumes
//          │            ▲                  ▲
//          └── a stop ──┘ holds them open ─┘
//
// While it asks them to stop, a thread counts as one of them: the caller, whose frame contains all of
// this, resumes only when no stop is in progress.

#pragma once

#include <unio/detail/promise.hpp>

#include <atomic>

namespace unio::inline v0_1::detail {

class UNIO_API children : private stop_node {
 public:
  children(children const&) = delete;
  children& operator=(children const&) = delete;

  /// One of those that were counted has ended. Returns the coroutine to resume: the caller, if that was the
  /// last. It runs where the children do.
  std::coroutine_handle<> one_ended() noexcept {
    // When one is left no other thread counts any more, except a stop from above.
    if (left_.load(std::memory_order_acquire) == 1 && !from_.stop_possible()) return caller_;
    return count_down();
  }
  /// The coroutine that resumes after the last.
  [[nodiscard]] std::coroutine_handle<> caller() const noexcept { return caller_; }
  /// Asks all of them to stop. True: this was the first request. Preconditions: the calling thread is
  /// counted.
  bool ask_to_stop() noexcept { return stop_.request_stop(); }

 protected:
  children() noexcept : stop_node(&stop_came) {}
  ~children() = default;

  /// `n` will be counted, and `h` resumes after them.
  void begin(std::coroutine_handle<> h, environment const& e, std::uint32_t n) noexcept {
    caller_ = h;
    listen(e, n);
  }
  void listen(environment const& e, std::uint32_t n) noexcept;
  /// After the last has ended, before more are started.
  void listen_again() noexcept;
  /// The caller has resumed.
  void gone_on() noexcept {
    caller_ = nullptr;
    posted_.store(false, std::memory_order_relaxed);
  }
  /// True from begin() until the caller has resumed. To destroy it before that: abandon(), destroy all that
  /// are counted, take_back().
  [[nodiscard]] bool is_waiting() const noexcept { return caller_ != nullptr; }
  void abandon() noexcept;
  void take_back() noexcept {
    if (is_posted()) back_.take_back(environment_.executor);
  }
  /// Acquire; pairs with the release in leave_last(), so that the post is visible.
  [[nodiscard]] bool is_posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  /// Detaches from the stop above; waits for one in progress on another thread.
  void stop_listening() noexcept {
    if (from_.stop_possible()) detach(from_);
  }

  /// Counts one more, unless none is left. Pair with release().
  bool hold() noexcept;
  /// Ends what hold() began, where no child ends: posts the caller, if none is left.
  void release() noexcept;
  /// The same on another thread than the executor's: dispatches the caller there.
  void release_from_elsewhere() noexcept;

  std::coroutine_handle<> count_down() noexcept;

  environment environment_; // the children's
  std::coroutine_handle<> caller_;
  std::atomic<std::uint32_t> left_{0};

 private:
  static void stop_came(stop_node& n) noexcept;
  bool leave_last() noexcept; // false: others are left

  std::atomic<bool> posted_{false};
  stop_token from_; // the caller's
  stop_source stop_;
  resumption back_;
};

} // namespace unio::detail
