// unio/detail/sender_wait.hpp: the part of unio/execution.hpp that is independent of the standard's
// vocabulary.
//
//   stop_gate            how an operation and a stop from another thread meet
//   standard_stop_token  a stop token, as the standard wants it
//   sender_wait          a coroutine that waits for a sender
//
// Here because the compiled library must not depend on which vocabulary a program has.

#pragma once

#include <unio/detail/away.hpp>
#include <unio/operation.hpp>

#include <atomic>
#include <concepts>
#include <exception>
#include <system_error>
#include <utility>

namespace unio::inline v0_1::detail {

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
  } else if constexpr (std::derived_from<error, std::error_code>) {
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

/// A coroutine that waits for a sender.
class sender_wait : protected away {
 public:
  /// The receiver was called, on any thread.
  void completed() noexcept { resume(arrive()); }
  [[nodiscard]] standard_stop_token token() noexcept { return {stop_.get_token()}; }
};

} // namespace unio::detail
