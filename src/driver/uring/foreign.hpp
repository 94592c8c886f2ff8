// src/driver/uring/foreign.hpp: a foreign_reactor's driver on io_uring.

#pragma once

#include "driver/foreign/foreign.hpp"

#include <unio/extend/foreign_lock.hpp>

#include <memory>

namespace unio::inline v0_1::driver {

/// Errors  what io_uring_setup(2), _register(2) and _enter(2) said; EOPNOTSUPP before Linux 6.10
result<std::unique_ptr<foreign_driver>> make_foreign_uring(int doorbell_fd, foreign_lock& lock) noexcept;

} // namespace unio::driver
