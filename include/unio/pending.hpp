// unio/pending.hpp: finding out what hangs, and what waits for it.
//
//   dump_pending            writes every pending operation, and the chain of coroutines that awaits it
//   dump_pending_on_signal  does so whenever a signal arrives

#pragma once

#include <unio/result.hpp>

#include <iosfwd>

namespace unio::inline v0_1 {

/// Writes what every multiplexer of the process waits for: for each pending operation its kind, its handle,
/// what is left of its deadline, and, if the library was built with UNIO_TRACK_PENDING, its age and the chain
/// of coroutines that awaits it, innermost first, each with its function and line. Then likewise, if
/// built so, every coroutine that waits for others: for a lock, an event, a latch, a channel. Of a program of
/// Asio's with unio::asio: each operation that waits for a descriptor, and in which direction; with
/// UNIO_TRACK_PENDING, or compiled with ASIO_ENABLE_HANDLER_TRACKING, since when; with the latter the places
/// that ASIO_HANDLER_LOCATION names. Timers, and a context without locks, are left out.
///
/// Throws       std::bad_alloc; what `to` throws
/// Effects      asks each thread that runs a multiplexer to list its own, between two turns of its loop; one
///              that does not answer within a second is listed as busy
/// Concurrency  from any thread, a coroutine included; not from a signal handler
/// Limits       a chain ends, with a remark, at anything but a task
/// Cost         none before it is called. With UNIO_TRACK_PENDING, which is off by default: 16 bytes and a
///              look at the clock for an operation, 16 bytes and two stores for a coroutine; 40 bytes, a look
///              at the clock and a lock of the process, twice, for a wait for other coroutines
UNIO_API void dump_pending(std::ostream& to);

/// Does so, to standard error, whenever `signal` (SIGUSR1, say) arrives, on a thread of its own.
///
/// Returns      nothing; later calls add signals
/// Errors       EINVAL for a signal that cannot be caught; EMFILE; EAGAIN where no thread can be started
/// Concurrency  from any thread
/// Failure      where there is no memory for the text, or std::cerr throws, a line says that instead
/// Cost         a thread and a descriptor, for all signals; one system call for each
UNIO_API result<void> dump_pending_on_signal(int signal) noexcept;

} // namespace unio
