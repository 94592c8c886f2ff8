// src/testing/libc/calls_by_number.hpp: system calls that no function of the C library makes.

#pragma once

#include <unio/config.hpp>

#include <cstdint>

namespace unio::inline v0_1::testing::libc {

/// Performs it by the function that takes the place of the C library's. `r`: as the kernel returns it.
/// False: there is none.
bool perform_by_number(long number, long const* arguments, std::int64_t& r) noexcept;

} // namespace unio::testing::libc
