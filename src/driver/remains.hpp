// src/driver/remains.hpp: what is left where a multiplexer was.
//
// A handle refers to its multiplexer, and may be used or closed after that has ended: a mistake, which has to
// be an error and not a crash. So the memory of a multiplexer is not given back. In it lies another one then,
// on which every operation ends at once with error::multiplexer_destroyed. Nothing has to be asked where
// operations start: the call through the pointer finds the remains by itself. Multiplexers that are made
// later use the memory again, the oldest remains first, once there are more than `kept` of them.

#pragma once

#include <cstddef>
#include <new>

namespace unio::inline v0_1::driver {

/// The base of a multiplexer that leaves remains.
///
/// Preconditions  made with `new`, and io_multiplexer is at its beginning
struct leaves_remains {
  /// How many remains of one size are not used again.
  static constexpr std::size_t kept = 64;
  /// Of all that is made here.
  static constexpr std::size_t alignment = 64;

  static void* operator new(std::size_t bytes);
  static void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept;
  static void operator delete(void* memory, std::size_t bytes) noexcept;
  static void operator delete(void* memory, std::nothrow_t const&) noexcept;
};

} // namespace unio::driver
