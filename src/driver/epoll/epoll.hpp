// src/driver/epoll/epoll.hpp: the backend on epoll.

#pragma once

#include "driver/backend.hpp"

#include <unio/result.hpp>

#include <memory>

namespace unio::inline v0_1::driver {

/// `why`: what io_uring said; 0 if it was not asked for. `doorbell_fd`: the engine's, if it has one already.
/// `epoll_fd`: made in advance, or -1.
[[gnu::cold]] result<std::unique_ptr<backend>> make_epoll(int why, int doorbell_fd = -1,
                                                          int epoll_fd = -1) noexcept;

/// A descriptor for make_epoll(), or -errno.
int make_epoll_descriptor() noexcept;

} // namespace unio::driver
