// src/sys/shared_streams.hpp: pipes, terminals and sockets whose open description others share, so that it
// blocks.

#pragma once

#include "sys/descriptors.hpp"

#include <cstddef>

namespace unio::inline v0_1::sys {

/// Noted when the handle is made, in the word of note_waited(), and cleared with the number.
inline constexpr std::uint32_t shared_blocking_bit = 1U << 20;
inline constexpr std::uint32_t shared_terminal_bit = 1U << 21;
inline void note_shared_blocking(int fd, bool is_terminal) noexcept {
  note_waited(fd, shared_blocking_bit | (is_terminal ? shared_terminal_bit : 0), true);
}
inline bool is_shared_blocking(int fd) noexcept { return last_waited(fd, shared_blocking_bit); }

/// Each call is made only if the descriptor is ready, and moves at most this. What is ready for writing has
/// room for that: a pipe (pipe(7), PIPE_BUF), a socket; a terminal for a buffer of 256 bytes, of which the
/// end of a line takes two (drivers/tty/tty_buffer.c, drivers/tty/n_tty.c).
inline std::size_t shared_blocking_bytes(int fd) noexcept {
  return last_waited(fd, shared_terminal_bit) ? 128 : 4096;
}

} // namespace unio::sys
