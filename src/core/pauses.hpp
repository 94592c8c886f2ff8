// src/core/pauses.hpp: how long to wait for what nothing tells of.

#pragma once

#include <algorithm>

namespace unio::detail {

/// Accepting without descriptors, say, after so many failures in a row: 5, 10, 20, 40, 80 and then 100 ms.
inline constexpr int pauses_that_grow = 6;
constexpr int pause_ms(int times) noexcept {
  return std::min(100, 5 << (std::min(times, pauses_that_grow) - 1));
}

/// A lock on a file, say, after so many attempts: 1, 2, 4 and then 8 ms.
inline constexpr int retries_that_grow = 3;
constexpr int retry_ms(int times) noexcept { return 1 << std::min(times, retries_that_grow); }

} // namespace unio::detail
