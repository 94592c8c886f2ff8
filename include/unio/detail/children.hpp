// unio/detail/children.hpp: coroutines that run side by side, and the one that waits for all of them.
//
// Here because when_all, timeout and task_group are made of it, and the compiler must see it to lay them out.
//
//   children   their environment, how many still run, who goes on after the last, how they are asked to stop
//
// Life:  begin ──► children run ──► the last has ended ──► its caller goes on
//          │            ▲                  ▲
//          └── a stop ──┘ holds them open ─┘
//
// Who asks them to stop counts as one of them meanwhile: the caller, whose frame all of this lies in, goes on
// only once nobody is in the middle of asking.

#pragma once

#include <unio/detail/promise.hpp>
#include <unio/stop_token.hpp>

#include <atomic>
#include <cstdint>

namespace unio::detail {

class UNIO_API children : private stop_node {
 public:
  children(children const&) = delete;
  children& operator=(children const&) = delete;

  /// One of those that were counted has ended. Says who goes on: the caller, if that was the last. It runs
  /// where the children do, and this is there.
  std::coroutine_handle<> one_ended() noexcept {
    // Nobody else counts any more when there is one left, except a stop that comes from above.
    if (left_.load(std::memory_order_acquire) == 1 && !from_.stop_possible()) return caller_;
    return count_down();
  }
  /// Who goes on after the last.
  [[nodiscard]] std::coroutine_handle<> caller() const noexcept { return caller_; }
  /// Asks all of them to stop. True: this was the first to. Preconditions: whoever calls is counted.
  bool ask_to_stop() noexcept { return stop_.request_stop(); }

 protected:
  children() noexcept : stop_node(&stop_came) {}
  ~children() = default;

  /// `n` will be counted, and `h` goes on after them.
  void begin(std::coroutine_handle<> h, environment const& e, std::uint32_t n) noexcept {
    caller_ = h;
    listen(e, n);
  }
  void listen(environment const& e, std::uint32_t n) noexcept;
  /// After the last has ended, when more are to come.
  void listen_again() noexcept;
  /// Starts them in this order, each until it suspends: all but the last, whose handle it returns.
  /// Preconditions: n > 0.
  static std::coroutine_handle<> start_in_order(std::coroutine_handle<> const* first, std::size_t n) noexcept;

  /// The caller has gone on.
  void gone_on() noexcept {
    caller_ = nullptr;
    posted_.store(false, std::memory_order_relaxed);
  }
  /// True from begin() until the caller has gone on. If it is destroyed before that: abandon(), then all who
  /// are counted are destroyed, then take_back().
  [[nodiscard]] bool is_waiting() const noexcept { return caller_ != nullptr; }
  void abandon() noexcept;
  void take_back() noexcept {
    if (is_posted()) back_.take_back(environment_.executor);
  }
  /// Acquire; pairs with the release in release(): who sees it sees what was posted.
  [[nodiscard]] bool is_posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  /// No stop comes from above any more; waits for one that is just coming from another thread.
  void stop_listening() noexcept {
    if (from_.stop_possible()) detach(from_);
  }

  /// Counts one more, unless none is left. Whoever does so releases it.
  bool hold() noexcept;
  /// Ends what hold() began, where no child ends: the caller, if nobody else is left, is posted.
  void release() noexcept;
  /// The same where its executor may not be: the caller is dispatched to it.
  void release_from_elsewhere() noexcept;

  std::coroutine_handle<> count_down() noexcept;

  environment environment_; // the children's
  std::coroutine_handle<> caller_;
  std::atomic<std::uint32_t> left_{0};

 private:
  static void stop_came(stop_node& n) noexcept;

  std::atomic<bool> posted_{false};
  stop_token from_; // the caller's
  stop_source stop_;
  resumption back_;
};

} // namespace unio::detail
