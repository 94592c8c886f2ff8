// src/driver/workers.hpp: threads that may block, for what readiness means nothing for.
//
// As many as there are processors, and more, of which there are four in all, while calls take long. They are
// made when first needed, and end with the process. A job is an operation; performing it is a blocking system
// call. A forked child makes its own.

#pragma once

#include <unio/operation.hpp>

namespace unio::inline v0_1::driver {

inline constexpr int max_workers = 4;

/// Has a worker perform `op` and tell its engine (engine::worker_done). False: so many wait for that already
/// that it was not taken.
bool give_to_worker(io_operation& op) noexcept;

/// Takes an operation back that no worker has begun. False: one has; it will be done.
bool take_from_workers(io_operation& op) noexcept;

} // namespace unio::driver
