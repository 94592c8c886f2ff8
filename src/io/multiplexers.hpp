// src/io/multiplexers.hpp: every multiplexer of the process.

#pragma once

#include <unio/multiplexer.hpp>

namespace unio::detail {

/// Before a descriptor is given up: cancels the operations on it in `own` (or null), in this thread's
/// multiplexer and in every other that has some, waits until the last has finished, and has each forget the
/// descriptor. The caller bumps the descriptor's generation afterwards.
void forget_everywhere(int fd, io_multiplexer* own) noexcept;

} // namespace unio::detail
