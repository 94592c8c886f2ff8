// unio/sigpipe.hpp: for programs that do not use SIGPIPE.
//
//   ignore_sigpipe  ignores it for good, so that splicing need not block it each time

#pragma once

#include <unio/result.hpp>

namespace unio::inline v0_1 {

/// Ignores SIGPIPE in this process, and records that it stays ignored.
///
/// The library never raises SIGPIPE, with or without this call. But splice(2) has no flag against it, nor has
/// writing to a pipe before Linux 6.18: there the calling thread blocks the signal during each call.
///
/// Preconditions  nothing changes the disposition of SIGPIPE afterwards; otherwise such a call may raise it
/// Errors         none that Linux is known to give
/// Concurrency    from any thread, at any time; best at the start of the program
/// Cost           one system call; saves two for each splice and for each write to such a pipe, and a third
///                where a splice moves fewer bytes than it was asked to
/// Source         signal(7), pipe(7)
UNIO_API result<void> ignore_sigpipe() noexcept;

} // namespace unio
