// unio/pending.hpp: what is stuck, and who waits for it.
//
//   dump_pending            writes every pending operation, and the chain of coroutines that awaits it
//   dump_pending_on_signal  does so whenever a signal arrives

#pragma once

#include <unio/result.hpp>

#include <iosfwd>

namespace unio {

/// Writes what every multiplexer of the process waits for: for each pending operation its kind, its handle,
/// what is left of its deadline, and, where the library was built with UNIO_TRACK_PENDING, its age and the
/// chain of coroutines that awaits it, innermost first, each with its function and line.
///
/// Effects      asks each thread that runs a multiplexer to write down its own, between two turns of its
///              loop; one that does not answer within a second is listed as busy
/// Concurrency  from any thread, a coroutine included; not from a signal handler
/// Limits       a coroutine that waits for another one (a lock, a channel) and not for an operation is not
///              listed. Where a chain leads through something else than a task, the list says so and ends
///              there
/// Cost         none before it is called. With UNIO_TRACK_PENDING, which is off by default: 16 bytes and a
///              look at the clock for an operation, 16 bytes and two stores for a coroutine
UNIO_API void dump_pending(std::ostream& to);

/// Has it written to standard error whenever `signal` (SIGUSR1, say) arrives. A thread of its own does the
/// writing.
///
/// Returns  nothing; later calls add signals
/// Errors   EINVAL for a signal that cannot be caught; EMFILE; EAGAIN where no thread can be started
UNIO_API result<void> dump_pending_on_signal(int signal) noexcept;

} // namespace unio
