// The least coroutine that can await: it starts at once, and its holder ends it.

#pragma once

#include <coroutine>
#include <cstdlib>
#include <utility>

namespace test {

class coroutine {
 public:
  struct promise_type {
    coroutine get_return_object() noexcept {
      return coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::abort(); }
  };

  coroutine(coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  coroutine& operator=(coroutine&&) = delete;
  ~coroutine() { destroy(); }

  [[nodiscard]] bool done() const noexcept { return handle_.done(); }
  /// Ends it where it is suspended.
  void destroy() noexcept {
    if (std::coroutine_handle<promise_type> const h = std::exchange(handle_, nullptr)) h.destroy();
  }

 private:
  explicit coroutine(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}
  std::coroutine_handle<promise_type> handle_;
};

} // namespace test
