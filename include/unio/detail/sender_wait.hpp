// unio/detail/sender_wait.hpp: the part of unio/execution.hpp that is independent of the standard's
// vocabulary.
//
//   stop_gate            how an operation and a stop from another thread meet
//   standard_stop_token  a stop token, as the standard wants it
//   sender_wait          a coroutine that waits for a sender
//
// Here because the compiled library must not depend on which vocabulary a program has.

#pragma once

#include <unio/operation.hpp>
#include <unio/run.hpp>

#include <atomic>
#include <concepts>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace unio::detail {

/// How an operation and a stop from another thread meet (src/coro/execution.cpp).
class stop_gate {
 public:
  /// The stop callback is attached and the operation about to start. False: a stop came first.
  [[nodiscard]] UNIO_API bool open() noexcept;
  /// A stop was requested, on whatever thread.
  UNIO_API void stop(io_operation& op) noexcept;

 private:
  static constexpr unsigned bit_open = 1, bit_stop = 2;
  std::atomic<unsigned> state_{0};
};

template <class E> std::exception_ptr to_exception(E&& e) noexcept {
  using error = std::remove_cvref_t<E>;
  if constexpr (std::same_as<error, std::exception_ptr>) {
    return std::forward<E>(e);
  } else if constexpr (std::same_as<error, std::error_code>) {
    return std::make_exception_ptr(std::system_error(e));
  } else {
    return std::make_exception_ptr(std::forward<E>(e));
  }
}
[[nodiscard]] UNIO_API std::exception_ptr canceled_exception() noexcept;

/// A stop token of unio's, as the standard wants it.
struct standard_stop_token : stop_token {
  template <class F> using callback_type = stop_callback<F>;
  static constexpr bool stop_possible() noexcept { return true; }
  bool operator==(standard_stop_token const&) const = default;
};

/// A coroutine that waits for a sender: its resumption and its stop callback (src/coro/execution.cpp).
class UNIO_API sender_wait {
 public:
  sender_wait() = default;
  sender_wait(sender_wait const&) = delete;
  sender_wait& operator=(sender_wait const&) = delete;
  /// The receiver was called, on any thread.
  void completed() noexcept;
  [[nodiscard]] standard_stop_token token() noexcept { return {stop_.get_token()}; }

 protected:
  ~sender_wait() = default;
  void before_start(std::coroutine_handle<> h, environment const& e) noexcept;
  /// False: it has completed, and the coroutine resumes.
  [[nodiscard]] bool after_start() noexcept;
  /// The coroutine is being destroyed: asks the sender to stop, and waits until it has completed.
  void leave() noexcept;
  void resumed() noexcept { place_.store(place::here, std::memory_order_relaxed); }

 private:
  enum class place : unsigned char { here, starting, waiting, returning, called_back };
  struct pass_on {
    sender_wait* self;
    void operator()() const noexcept { self->pass_on_stop(); }
  };
  void pass_on_stop() noexcept;
  bool end_waiting() noexcept;
  environment const* with_ = nullptr;
  resumption resume_;
  stop_source stop_;
  std::optional<stop_callback<pass_on>> stop_from_caller_;
  blocker completed_;
  std::atomic<void const*> stopping_{nullptr}; // the thread that is passing a stop on
  bool completed_by_stop_ = false;
  std::atomic<place> place_{place::here};
};

} // namespace unio::detail
