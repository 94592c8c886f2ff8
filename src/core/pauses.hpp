// src/core/pauses.hpp: how long to pause between retries where the kernel notifies of nothing, and how long
// to wait for a peer.

#pragma once

#include <algorithm>
#include <cstdint>

namespace unio::inline v0_1::detail {

/// After so many failures in a row (accepting without descriptors, say): 5, 10, 20, 40, 80 and then 100 ms.
inline constexpr int pauses_that_grow = 6;
constexpr int pause_ms(int times) noexcept {
  return std::min(100, 5 << (std::min(times, pauses_that_grow) - 1));
}

/// After so many attempts (at a lock on a file, say): 1, 2, 4 and then 8 ms.
inline constexpr int retries_that_grow = 3;
constexpr int retry_ms(int times) noexcept { return 1 << std::min(times, retries_that_grow); }

/// How long a peer may keep buffers that are wanted back: as async_send_zero_copy says.
inline constexpr std::int64_t buffers_wanted_ns = 1'000'000'000;

} // namespace unio::detail
