// src/sys/multishot.hpp: whether one request of a ring may bring many values.
//
// The ring's driver finds out by trying (src/driver/uring/choosing.cpp), before it asks an operation for its
// first request that chooses buffers.

#pragma once

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::sys {

/// Linux 6.7, include/uapi/linux/io_uring.h (IORING_OP_READ_MULTISHOT).
inline constexpr std::uint8_t op_read_multishot = 49;

// Relaxed: each thread that tries finds the same.
inline constinit std::atomic<bool> kernel_receives_many{false};
inline constinit std::atomic<bool> kernel_receives_all_of_unix{false};
inline constinit std::atomic<bool> kernel_reads_many{false};

/// From a stream socket.
inline bool receives_many() noexcept { return kernel_receives_many.load(std::memory_order_relaxed); }
/// From a Unix socket, too: not where the kernel may lose its end.
inline bool receives_all_of_unix() noexcept {
  return kernel_receives_all_of_unix.load(std::memory_order_relaxed);
}
/// From a pipe.
inline bool reads_many() noexcept { return kernel_reads_many.load(std::memory_order_relaxed); }

} // namespace unio::sys
