// src/fs/on_thread.hpp: awaiting the result of a function that blocks, on a thread of its own.
//
// Not on one of the threads that perform operations: there are few, and an algorithm on a tree may take
// minutes.

#pragma once

#include "sys/threads.hpp"

#include <unio/detail/away.hpp>

#include <coroutine>
#include <utility>

namespace unio::inline v0_1::fs {

/// `f(stop_token)` runs elsewhere; where no thread can be started, on the calling one.
template <class F> class [[nodiscard]] on_thread : unio::detail::away {
 public:
  explicit on_thread(F f) noexcept : f_(static_cast<F&&>(f)) {}
  ~on_thread() { call_back(); }

  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    leave(h, e);
    auto const run = [](void* self) -> void* {
      auto& me = *static_cast<on_thread*>(self);
      me.result_ = me.f_(me.stop_.get_token());
      unio::detail::resume(me.arrive());
      return nullptr;
    };
    if (sys::start_thread(run, this) != 0) {
      result_ = f_(stop_.get_token());
      (void)arrive();
    }
    return state_.has_left() ? std::noop_coroutine() : h;
  }
  auto await_resume() noexcept {
    state_.resumed();
    return std::move(result_);
  }

 private:
  F f_;
  decltype(f_(stop_token())) result_;
};

} // namespace unio::fs
