// src/sys/passing.hpp: failures that say nothing about what the system can do.

#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>

namespace unio::inline v0_1::sys {

/// Whether an attempt that returned `code` failed for want of descriptors or memory, or by a signal: the next
/// one may succeed, and what was to be found out is not known.
constexpr bool may_pass(std::int64_t code) noexcept {
  for (int const error : {EMFILE, ENFILE, ENOMEM, EAGAIN, EBUSY, EINTR})
    if (code == -error) return true;
  return false;
}

} // namespace unio::sys
