// src/testing/preload/trap.hpp: system calls that no function of this library makes.

#pragma once

#include <unio/config.hpp>

namespace unio::inline v0_1::testing::preload {

/// From now on the process ends with a line where code other than this library opens a socket, waits, makes a
/// process or a ring: in the C library's own functions, or by itself.
void watch_what_escapes() noexcept;

} // namespace unio::testing::preload
