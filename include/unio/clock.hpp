// unio/clock.hpp: the clock by which the library waits.
//
//   now   what deadlines are compared with

#pragma once

#include <unio/config.hpp>
#include <unio/detail/standard.hpp>

namespace unio::inline v0_1 {

/// The time on the clock of deadlines: std::chrono::steady_clock::now(), and on the thread of a simulation
/// its virtual time (unio/testing.hpp). So a program that makes its points in time from this one, such as a
/// limit that several operations share, can be tested without waiting.
///
/// Concurrency  from any thread
/// Cost         reading the clock; no system call
/// Source       clock_gettime(2), CLOCK_MONOTONIC
[[nodiscard]] UNIO_API std::chrono::steady_clock::time_point now() noexcept;

} // namespace unio
