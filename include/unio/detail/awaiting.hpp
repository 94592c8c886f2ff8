// unio/detail/awaiting.hpp: the base of every io_awaitable.

#pragma once

#include <unio/executor.hpp>

#include <coroutine>

namespace unio::inline v0_1 {
class io_operation;
}

namespace unio::inline v0_1::detail {

/// What an awaited operation needs beside itself: its coroutine, and its stop callback. Not a template
/// (src/driver/operation.cpp). It precedes the operation: see set_atomic().
class awaiting : public stop_node {
 public:
  explicit awaiting(stop_node::function on_stop) noexcept : stop_node(on_stop) {}
  awaiting& operator=(awaiting const&) = delete;

  void bind(environment const& e) noexcept { environment_ = &e; }
  [[nodiscard]] bool is_bound() const noexcept { return environment_ != nullptr; }
  /// Starts it, unless a stop was requested or another thread must start it, which suspend() arranges. It may
  /// have finished on return.
  UNIO_API void start(io_operation& op) noexcept;
  /// False: do not suspend, because the operation will not start.
  UNIO_API bool suspend(io_operation& op, std::coroutine_handle<> h) noexcept;
  /// The operation has ended: resumes the coroutine on its executor.
  UNIO_API void notify(io_operation& op) noexcept;
  /// A stop was requested.
  UNIO_API static void stop(io_operation& op) noexcept;
  /// Its coroutine is being destroyed: withdraws the resumption if it is queued.
  UNIO_API void leave(io_operation& op) noexcept;

 private:
  std::coroutine_handle<> handle_;
  environment const* environment_ = nullptr;
  io_operation* next_message_ = nullptr; // for the operation, once it is atomic
};

} // namespace unio::detail
