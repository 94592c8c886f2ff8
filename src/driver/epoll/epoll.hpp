// src/driver/epoll/epoll.hpp: the backend on epoll.

#pragma once

#include "driver/backend.hpp"

#include <unio/result.hpp>

#include <memory>
#include <string>

namespace unio::driver {

/// `why`: why io_uring was not taken; "" if nobody wanted it.
result<std::unique_ptr<backend>> make_epoll(std::string why) noexcept;

}  // namespace unio::driver
