// src/driver/workers.hpp: threads that may block, for what readiness means nothing for.
//
// As many as there are processors, and more, of which there are four in all, while calls take long. They are
// made when first needed, and end with the process. A job is an operation or a transfer of a
// foreign_reactor's; performing it is a blocking system call. A forked child makes its own.
//
// They make the calls on names, attributes and space on every driver, because a ring would give each to a
// thread of the kernel; without a ring also reads and writes of files that are not cached, but for direct
// reads (epoll/direct_reads.hpp). Calls that change a directory go through lanes by its descriptor, and two
// of one lane never run at once. Where there are fewer than four processors, helpers make up the number: they
// take a job only if a whole millisecond has passed in which no job was begun.

#pragma once

#include <unio/operation.hpp>

namespace unio::inline v0_1 {
class foreign_transfer;
}

namespace unio::inline v0_1::driver {

inline constexpr int max_workers = 4;

/// Has a worker perform `op` and tell its engine (engine::worker_done). False: so many wait for that already
/// that it was not taken.
bool give_to_worker(io_operation& op) noexcept;

/// Takes an operation back that no worker has begun. False: one has; it will be done.
bool take_from_workers(io_operation& op) noexcept;

/// The same for a transfer, which is made by foreign_transfers::make_now().
bool give_to_worker(foreign_transfer& t) noexcept;
bool take_from_workers(foreign_transfer& t) noexcept;

} // namespace unio::driver
