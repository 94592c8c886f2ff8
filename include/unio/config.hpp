// unio/config.hpp: the version, visibility, exceptions, assertions. The only header with conditional
// compilation.
//
//   version_string       the version of the library
//   UNIO_API             marks what the shared library exports
//   UNIO_HAS_EXCEPTIONS  1 where result<T>::value() may throw, 0 where it ends the program instead
//   UNIO_POOLS_FRAMES    false under sanitizers, which must see coroutine frames come from the heap
//   UNIO_TAIL_CALLS      true where one coroutine resumes another in constant stack
//   UNIO_COPIES_AWAITERS true where the compiler copies what is awaited by reference
//   UNIO_TRACKS_PENDING  true where dump_pending shows who awaits what, and since when (CMake:
//                        UNIO_TRACK_PENDING)
//   UNIO_EXPECTS(c, m)   a caller's mistake: always checked, ends the program with `m`

#pragma once

#include <string_view>

#define UNIO_VERSION_MAJOR 0
#define UNIO_VERSION_MINOR 1
#define UNIO_VERSION_PATCH 0

#define UNIO_API __attribute__((visibility("default")))

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
// -O1 and -Og cannot be told from -O2 here, and do not: code compiled with them needs
// -foptimize-sibling-calls, or each co_await in a row of ready ones costs stack.
#if defined(__clang__) || \
    (defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__))
#define UNIO_TAIL_CALLS true
#else
#define UNIO_TAIL_CALLS false
#endif

// GCC 12 copies an awaiter that await_transform returns by reference into the frame.
#if defined(__clang__)
#define UNIO_COPIES_AWAITERS false
#else
#define UNIO_COPIES_AWAITERS true
#endif

// Programs and library must agree, so the CMake target passes the definition on.
#if defined(UNIO_TRACK_PENDING) && UNIO_TRACK_PENDING
#define UNIO_TRACKS_PENDING true
#define UNIO_AWAITED_HERE std::source_location::current()
#else
#define UNIO_TRACKS_PENDING false
#define UNIO_AWAITED_HERE \
  {                       \
  }
#endif

// Clang 20 makes the frame of a coroutine that is awaited where it is called part of the caller's.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define UNIO_AWAIT_ELIDABLE [[clang::coro_await_elidable]]
#endif
#endif
#ifndef UNIO_AWAIT_ELIDABLE
#define UNIO_AWAIT_ELIDABLE
#endif

namespace unio {

/// The version of the library that the program runs with, as "0.1.0".
UNIO_API std::string_view version_string() noexcept;

namespace detail {

/// Prints `message` with where it was raised on standard error and aborts.
[[noreturn]] UNIO_API void broken_precondition(char const* expression, char const* message, char const* file,
                                               int line) noexcept;

} // namespace detail
} // namespace unio

#define UNIO_EXPECTS(expression, message) \
  (__builtin_expect(!!(expression), 1)    \
       ? void()                           \
       : ::unio::detail::broken_precondition(#expression, message, __FILE__, __LINE__))
