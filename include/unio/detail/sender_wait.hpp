// unio/detail/sender_wait.hpp: the part of unio/execution.hpp that is independent of the standard's
// vocabulary.
//
//   stop_gate            how an operation and a stop from another thread meet
//   standard_stop_token  a stop token, as the standard wants it
//   runs_here            what the calling thread runs at this moment
//   delegated_run        a thread that runs its multiplexer in turns of a scheduler
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

/// What value() throws of such a failure.
[[nodiscard]] UNIO_API std::exception_ptr system_exception(failure const& why) noexcept;

/// Calls f(). Returns what it throws.
template <class F> std::exception_ptr exception_of(F f) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    f();
  } catch (...) {
    return std::current_exception();
  }
#else
  f();
#endif
  return nullptr;
}

template <class E> std::exception_ptr to_exception(E&& e) noexcept {
  using error = std::remove_cvref_t<E>;
  if constexpr (std::same_as<error, std::exception_ptr>) {
    return std::forward<E>(e);
  } else if constexpr (std::derived_from<error, std::error_code>) {
    return system_exception(e); // of unio's own errors with their text
  } else {
    std::exception_ptr made;
    std::exception_ptr thrown = exception_of([&] { made = std::make_exception_ptr(std::forward<E>(e)); });
    return thrown != nullptr ? thrown : made; // of a copy, say
  }
}
[[nodiscard]] UNIO_API std::exception_ptr canceled_exception() noexcept;

/// While it exists, the calling thread is called by code that runs `m`, and will go on running it (not in a
/// delegated turn): what is started in it needs no other code for that.
class runs_here {
 public:
  UNIO_API explicit runs_here(io_multiplexer const* m) noexcept;
  UNIO_API ~runs_here();
  runs_here(runs_here const&) = delete;
  runs_here& operator=(runs_here const&) = delete;
  [[nodiscard]] UNIO_API static bool is(io_multiplexer const& m) noexcept;

 private:
  io_multiplexer const* before_;
};

/// A thread runs its multiplexer in turns of another's scheduler, as the standard's sync_wait has one.
class delegated_run {
 public:
  /// The multiplexer that has to be run until what is started on `m` has ended; null: other code runs it.
  [[nodiscard]] UNIO_API static io_multiplexer* begin(io_multiplexer& m) noexcept;
  /// Runs it until something has happened, or for a while: the scheduler may have other work, which cannot
  /// wake it.
  UNIO_API static void turn(io_multiplexer& m) noexcept;
  UNIO_API static void end() noexcept;
};

/// Ends the program if nothing has run the calling thread's own multiplexer, on which something is to be
/// started for a scheduler that is not unio's.
UNIO_API void expect_is_run(io_multiplexer const& own) noexcept;

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
  [[nodiscard]] executor_ref executor() const noexcept { return with_->executor; }
};

} // namespace unio::detail
