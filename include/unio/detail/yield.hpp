// unio/detail/yield.hpp: counting awaits that need not wait, and suspending for a turn or for a thread.

#pragma once

#include <unio/executor.hpp>

#include <coroutine>

namespace unio::inline v0_1::detail {

/// Counts an await that may not have to wait. True for every 64th since a coroutine was resumed from a loop:
/// it yields even if it is ready.
[[nodiscard]] UNIO_API bool turn_is_over() noexcept;

class UNIO_TO_AWAIT yield_awaitable {
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
    if (!prepare(h, e)) return false;
    e.executor.post(resume_); // the coroutine may resume, and destroy this object, from here on
    return true;
  }
  void await_resume() noexcept { with_ = nullptr; }

 protected:
  bool prepare(std::coroutine_handle<> h, environment const& e) noexcept {
    if (!e.executor.has_turns()) return false;
    resume_ = resumption(h, &e);
    with_ = &e;
    return true;
  }
  resumption resume_;

 private:
  environment const* with_ = nullptr; // while it is queued
};

class UNIO_TO_AWAIT fork_awaitable : public yield_awaitable {
 public:
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    if (!prepare(h, e)) return false;
    e.executor.fork(resume_); // as in yield_awaitable
    return true;
  }
};

} // namespace unio::detail
