// src/sys/shared_streams.hpp: pipes and terminals whose open description others share, so that it blocks.

#pragma once

#include "sys/descriptors.hpp"

namespace unio::inline v0_1::sys {

/// Each call is made only if the descriptor is ready, and moves at most this: a pipe that is ready for
/// writing has room for that (pipe(7), PIPE_BUF).
inline constexpr std::size_t shared_blocking_bytes = 4096;

/// Noted when the handle is made, in the word of note_waited(), and cleared with the number.
inline constexpr std::uint32_t shared_blocking_bit = 1U << 20;
inline void note_shared_blocking(int fd) noexcept { note_waited(fd, shared_blocking_bit, true); }
inline bool is_shared_blocking(int fd) noexcept { return last_waited(fd, shared_blocking_bit); }

} // namespace unio::sys
