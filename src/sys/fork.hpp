// src/sys/fork.hpp: detecting that this process is a child that inherited multiplexers.

#pragma once

#include <unio/config.hpp>

#include <atomic>

namespace unio::inline v0_1::sys {

UNIO_API extern std::atomic<unsigned> fork_count;

/// Counts forks from now on. Called when a multiplexer is made.
UNIO_API void watch_forks() noexcept;

/// How many forks lie between the first process and this one.
inline unsigned fork_generation() noexcept { return fork_count.load(std::memory_order_relaxed); }

} // namespace unio::sys
