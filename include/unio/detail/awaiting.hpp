// unio/detail/awaiting.hpp: the base of every io_awaitable.

#pragma once

#include <unio/config.hpp>
#include <unio/executor.hpp>
#include <unio/stop_token.hpp>

#include <coroutine>

namespace unio {
class io_operation;
}

namespace unio::detail {

/// What an awaited operation has beside itself: whose it is, and its place among what a stop ends. In no
/// template, so that there is one of it, in src/io/awaiting.cpp. It comes before the operation: see
/// set_atomic().
class awaiting : public stop_node {
 public:
  explicit awaiting(stop_node::function on_stop) noexcept : stop_node(on_stop) {}
  awaiting& operator=(awaiting const&) = delete;

  void bind(environment const& e) noexcept { environment_ = &e; }
  [[nodiscard]] bool is_bound() const noexcept { return environment_ != nullptr; }
  /// Starts it, unless a stop was requested or it has to be started on another thread, which suspend() does.
  /// It may have finished then.
  UNIO_API void start(io_operation& op) noexcept;
  /// False: it need not be suspended, for it will not start.
  UNIO_API bool suspend(io_operation& op, std::coroutine_handle<> h) noexcept;
  /// It has ended: resumes the coroutine, where its environment says.
  UNIO_API void notify(io_operation& op) noexcept;
  /// A stop was requested.
  UNIO_API static void stop(io_operation& op) noexcept;
  /// Its coroutine is being destroyed: forgets it, or takes back the resumption that is queued.
  UNIO_API void leave(io_operation& op) noexcept;

 private:
  std::coroutine_handle<> handle_;
  environment const* environment_ = nullptr;
  io_operation* next_message_ = nullptr; // the operation's, once it is atomic
};

} // namespace unio::detail
