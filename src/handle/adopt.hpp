// src/handle/adopt.hpp: making a descriptor from elsewhere one of unio's.

#pragma once

#include <cstdint>

namespace unio::detail {

/// Makes it close-on-exec and, unless it stays blocking, non-blocking, and moves it above 2. Returns the
/// descriptor and sets `status_flags` to its flags before (F_GETFL); or a negative code: then it is still the
/// caller's.
int take_over(int fd, bool stays_blocking, std::int64_t& status_flags) noexcept;

} // namespace unio::detail
