// src/driver/choose.hpp: which backend.

#pragma once

#include "driver/backend.hpp"
#include "driver/foreign/foreign.hpp"

#include <unio/extend/foreign_lock.hpp>
#include <unio/result.hpp>

#include <array>
#include <memory>
#include <string>
#include <system_error>

namespace unio::inline v0_1::driver {

/// The best backend that this system offers, or the one that UNIO_DRIVER names. Decided once per process.
///
/// Errors  error::unknown_driver; error::bad_ring_entries; what io_uring_setup(2) said
///
/// `for_other_threads`: it is to be run by others than the calling thread
result<std::unique_ptr<backend>> best_backend(bool for_other_threads = false) noexcept;

/// The simulation's, while it replaces the system calls; null: there is none. A backend that is null: the
/// calling thread is not simulated. Changed only by tests, while nothing else runs.
using backend_maker = result<std::unique_ptr<backend>> (*)(bool for_other_threads) noexcept;
UNIO_API extern constinit backend_maker simulated_backend;

/// One line about an error of best_backend(). Where a variable of the environment is the cause it names it
/// and its value.
std::string why_none(std::error_code const& error);

/// Whether the io_uring driver was compiled.
bool has_uring() noexcept;

/// Which entries the kernel of a ring knows, by their numbers. Returns 0, or why there is no ring: -errno.
int probe_ring(std::array<bool, 256>& known) noexcept;

/// Rings may choose among the buffers of sources that are made from now on.
void let_rings_choose() noexcept;

/// The backend to go on with, and with the same doorbell, when `current` could not for the reason
/// `native_code`: epoll if it was io_uring that was forbidden, otherwise null.
std::unique_ptr<backend> backend_after(backend& current, int native_code, int doorbell_fd) noexcept;

/// The sentence for backend::why_no_ring(). It is made only for who asks, for that allocates.
std::string why_this_driver(int native_code);

/// Whether an error of io_uring_setup(2) or io_uring_enter(2) means that io_uring is missing or forbidden,
/// rather than that something is short for the moment (liburing#1078, semgrep#11836, dragonfly#7810).
bool means_unavailable(int native_code) noexcept;

/// The driver of a foreign_reactor, by the same rule, and epoll where several threads run it: with one ring
/// for them the kernel would interrupt the thread that had asked, to bring what another waits for, which took
/// half as much time again for each message. `lock` is the reactor's.
///
/// Errors  as best_backend()
result<std::unique_ptr<foreign_driver>> best_foreign_driver(foreign_use use, int doorbell_fd,
                                                            foreign_lock& lock) noexcept;
/// Epoll, when a ring may not be entered any more for the reason `native_code`; otherwise null.
std::unique_ptr<foreign_driver> foreign_driver_after(foreign_driver& current, int native_code,
                                                     int doorbell_fd) noexcept;

result<std::unique_ptr<foreign_driver>> make_foreign_epoll(int doorbell_fd) noexcept;

} // namespace unio::driver
