// unio/config.hpp: visibility, exceptions, assertions. The only header with conditional compilation.
//
//   UNIO_API            marks what the shared library exports
//   UNIO_HAS_EXCEPTIONS 1 where result<T>::value() may throw, 0 where it ends the program instead
//   UNIO_EXPECTS(c, m)  a caller's mistake: always checked, ends the program with `m`

#pragma once

#define UNIO_VERSION_MAJOR 0
#define UNIO_VERSION_MINOR 1
#define UNIO_VERSION_PATCH 0

#define UNIO_API __attribute__((visibility("default")))

#if defined(__cpp_exceptions)
#define UNIO_HAS_EXCEPTIONS 1
#else
#define UNIO_HAS_EXCEPTIONS 0
#endif

namespace unio::detail {

/// Prints `message` with where it was raised on standard error and aborts.
[[noreturn]] UNIO_API void broken_precondition(char const* expression, char const* message, char const* file,
                                               int line) noexcept;

} // namespace unio::detail

#define UNIO_EXPECTS(expression, message) \
  (__builtin_expect(!!(expression), 1)    \
       ? void()                           \
       : ::unio::detail::broken_precondition(#expression, message, __FILE__, __LINE__))
