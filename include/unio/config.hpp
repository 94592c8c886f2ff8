// unio/config.hpp: the version, visibility, exceptions, assertions, compilers.
//
//   version_string       the version of the library
//   UNIO_API             marks what the shared library exports
//   UNIO_HAS_EXCEPTIONS  1 where result<T>::value() may throw, 0 where it ends the program instead
//   UNIO_POOLS_FRAMES    false under sanitizers, which must see coroutine frames come from the heap
//   UNIO_TAIL_CALLS      true where coroutines may resume each other by tail calls
//   UNIO_COPIES_AWAITERS true where the compiler copies what is awaited by reference
//   UNIO_IS_DEBUG        true without NDEBUG: checks that cost something, or may be wrong about odd programs
//   UNIO_TRACKS_PENDING  true where dump_pending shows who awaits what (CMake: UNIO_TRACK_PENDING)
//   UNIO_LAYOUT          marks functions whose names say so: code that was compiled otherwise does not link
//   UNIO_EXPECTS(c, m)   a caller's mistake: always checked, ends the program with `m`

#pragma once

// What is not there ends the compilation; #error would let thousands of errors follow.
#if __cplusplus <= 202002L
#include "unio needs C++23: compile with -std=c++23 or newer"
#endif

#include <string_view>

#define UNIO_VERSION_MAJOR 0
#define UNIO_VERSION_MINOR 1
#define UNIO_VERSION_PATCH 0

#define UNIO_API __attribute__((visibility("default")))

namespace unio::inline v0_1 {

/// The version of the library that the program runs with, as "0.1.0". Lifetime: static.
/// Concurrency: any thread. Cost: none.
UNIO_API std::string_view version_string() noexcept;

} // namespace unio

#include <unio/detail/config.hpp>
