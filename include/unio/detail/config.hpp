// unio/detail/config.hpp: what compilers and their options can do, and assertions. Of the public
// headers only config.hpp, standard.hpp and execution.hpp have conditional compilation, too.

#pragma once

#include <unio/config.hpp>

#if defined(__cpp_exceptions)
#define UNIO_HAS_EXCEPTIONS 1
#else
#define UNIO_HAS_EXCEPTIONS 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIO_POOLS_FRAMES false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIO_POOLS_FRAMES false
#endif
#endif
#ifndef UNIO_POOLS_FRAMES
#define UNIO_POOLS_FRAMES true
#endif

// GCC makes it a tail call only when it optimises (GCC PR 100897), and under no sanitizer; Clang always does.
// -O1 and -Og, which make none, look like -O2 here: detail::makes_tail_calls() tells them apart.
#if defined(__clang__) || \
    (defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__))
#define UNIO_TAIL_CALLS true
#else
#define UNIO_TAIL_CALLS false
#endif
#if defined(__clang__)
#define UNIO_ALWAYS_MAKES_TAIL_CALLS true
#else
#define UNIO_ALWAYS_MAKES_TAIL_CALLS false
#endif

#if defined(NDEBUG)
#define UNIO_IS_DEBUG false
#else
#define UNIO_IS_DEBUG true
#endif

// GCC 12 copies an awaiter that await_transform returns by reference into the frame.
#if defined(__clang__)
#define UNIO_COPIES_AWAITERS false
#else
#define UNIO_COPIES_AWAITERS true
#endif

// Programs and library must agree, because operations and promises differ; so the CMake target passes the
// definition on. Code that does not agree fails to link: what has an operation or makes a coroutine calls
// functions whose names differ as well (UNIO_LAYOUT). Nothing else here changes a layout.
#if defined(UNIO_TRACK_PENDING) && UNIO_TRACK_PENDING
#define UNIO_TRACKS_PENDING true
#define UNIO_LAYOUT __attribute__((abi_tag("tracks_pending")))
#define UNIO_AWAITED_HERE std::source_location::current()
#else
#define UNIO_TRACKS_PENDING false
#define UNIO_LAYOUT
#define UNIO_AWAITED_HERE \
  {                       \
  }
#endif

// What does nothing unless it is awaited.
#define UNIO_TO_AWAIT [[nodiscard("it begins when it is awaited: write co_await")]]

// Clang 20 makes the frame of a coroutine that is awaited where it is called part of the caller's.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define UNIO_AWAIT_ELIDABLE [[clang::coro_await_elidable]]
#endif
#endif
#ifndef UNIO_AWAIT_ELIDABLE
#define UNIO_AWAIT_ELIDABLE
#endif

namespace unio::inline v0_1::detail {

/// Prints `message` with where it was raised on standard error and aborts.
[[noreturn]] UNIO_API void broken_precondition(char const* expression, char const* message, char const* file,
                                               int line) noexcept;

/// For makes_tail_calls().
inline bool counts_down(unsigned n) noexcept {
  if (n == 0) return true;
  return counts_down(n - 1);
}

/// Whether the compiler makes tail calls where it is used: known when it optimises, and then no code. Only
/// where it does, what counts_down() returns is a constant, because it is a loop. Otherwise it is called with
/// 0, which the compiler does not know.
[[gnu::always_inline]] inline bool makes_tail_calls() noexcept {
  if constexpr (UNIO_ALWAYS_MAKES_TAIL_CALLS) return true;
  unsigned n = 0;
  asm("" : "+r"(n));
  bool const counted = counts_down(n);
  return __builtin_constant_p(counted);
}

} // namespace unio::detail

#define UNIO_EXPECTS(expression, message) \
  (__builtin_expect(!!(expression), 1)    \
       ? void()                           \
       : ::unio::detail::broken_precondition(#expression, message, __FILE__, __LINE__))
