// src/driver/workers.hpp: threads that may block, for what readiness means nothing for.
//
// At most four for the whole process, made when first needed, ended with it. A job is an operation;
// performing it is a blocking system call. A forked child makes its own.

#pragma once

#include <unio/operation.hpp>

namespace unio::driver {

inline constexpr int max_workers = 4;

/// Has a worker perform `op` and tell its engine (engine::worker_done).
void give_to_worker(io_operation& op) noexcept;

/// Takes an operation back that no worker has begun. False: one has; it will be done.
bool take_from_workers(io_operation& op) noexcept;

} // namespace unio::driver
