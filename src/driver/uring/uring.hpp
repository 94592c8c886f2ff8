// src/driver/uring/uring.hpp: the backend on io_uring.

#pragma once

#include "driver/backend.hpp"

#include <unio/result.hpp>

#include <array>
#include <memory>

namespace unio::inline v0_1::driver {

/// Errors: what io_uring_setup(2) or the first io_uring_enter(2) said.
[[gnu::cold]] result<std::unique_ptr<backend>> make_uring(unsigned entries) noexcept;
/// As probe_ring().
int probe_uring(std::array<bool, 256>& known) noexcept;

} // namespace unio::driver
