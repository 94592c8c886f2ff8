// unio/yield.hpp: giving others a turn.
//
//   co_yield_now()   lets everything else that is ready go on first
//
//   for (block& b : blocks) {
//     checksum(b);
//     co_await unio::co_yield_now();
//   }

#pragma once

#include <unio/config.hpp>
#include <unio/executor.hpp>

#include <coroutine>

namespace unio {

namespace detail {

/// Counts an await that may not have to wait. True for every 64th since a coroutine was resumed from a loop:
/// it gives others a turn even if it is ready.
[[nodiscard]] UNIO_API bool turn_is_over() noexcept;
class [[nodiscard]] yield_awaitable {
 public:
  yield_awaitable() = default;
  yield_awaitable(yield_awaitable const&) noexcept {}
  yield_awaitable& operator=(yield_awaitable const&) = delete;
  ~yield_awaitable() {
    if (with_ != nullptr) [[unlikely]]
      resume_.take_back(with_->executor);
  }

  static constexpr bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    if (!e.executor.has_turns()) return false;
    resume_ = resumption(h, &e);
    with_ = &e;
    e.executor.post(resume_); // from here on it may go on, and this be gone
    return true;
  }
  void await_resume() noexcept { with_ = nullptr; }

 private:
  resumption resume_;
  environment const* with_ = nullptr; // while it is queued
};

} // namespace detail

/// `co_await co_yield_now()` suspends the coroutine and queues it behind everything that its executor has to
/// run.
///
/// Effects       other coroutines, posted work, timers and I/O have their turn; then it goes on
/// Returns       nothing
/// Errors        none
/// Preconditions awaited by a coroutine that has an environment, as task<T> has
/// Buffers       none
/// Concurrency   any number of coroutines
/// Cancellation  none: a coroutine that was asked to stop goes on as well
/// Cost          one post; no allocation; where one thread runs the executor no system call
/// Runs as       executor_ref::post(). On inline_executor, which has no queue, it does nothing
/// Source        none
///
/// What is computed between two awaits holds everybody else up. Awaits that need not wait are counted by the
/// library: after 64 of them (channels, mutexes and their kin, buffered streams, I/O that completes at once)
/// the others have a turn.
[[nodiscard]] inline detail::yield_awaitable co_yield_now() noexcept { return {}; }

} // namespace unio
