// unio/standard_streams.hpp: the streams that this process was started with, and others that it shares.
//
//   standard_input, standard_output, standard_error   descriptors 0, 1 and 2 as handles
//   shared_stream                                     the same for any descriptor
//
// Others have these streams too: the shell, the other processes of a pipeline, this process's own printf. To
// make one non-blocking, as io_handle::adopt does, would be done to all of them: their writes would fail with
// EAGAIN, after this process has ended too. So nothing of what is shared is changed here, and nothing of it
// is closed: the handle has a descriptor of its own.
//
// Thread safety  the functions from any thread

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

/// A handle on what `fd` leads to, in every style, which leaves `fd` and its flags as they are.
///
///   a pipe, a terminal, another device   opened anew, so that only this handle does not block
///   a socket                             shared; no call that could block is made on it. Splicing: as below
///   a regular file                       shared with its position: requests without an offset go on where
///                                        others have stopped
///   a pipe or a terminal that this       shared; it is asked whether it is ready before each call, which
///   process may not open (another        moves at most 4096 bytes, and 128 to a terminal. Where another
///   user's), a pipe without readers      process takes these bytes, or this room, in between, the call waits
///
/// Returns       the handle. Closing it closes neither `fd` nor the stream
/// Errors        EBADF; EISDIR; EPROTOTYPE for a socket of messages; EMFILE, ENFILE
/// Preconditions `fd` is open for reading, for writing or for both
/// Terminals     opened by their own name or, where that is not permitted and it is this process's terminal,
///               as /dev/tty
/// Simulation    of a simulated descriptor: refused
/// Cost          three to six system calls
/// Source        docs/features.md H-16; open(2) on /proc/self/fd, proc(5)
UNIO_API result<io_handle> shared_stream(int fd) noexcept;

/// Standard input. See shared_stream.
result<io_handle> standard_input() noexcept;
/// Standard output. See shared_stream. What printf(3) and std::cout have not written yet is theirs.
result<io_handle> standard_output() noexcept;
/// Standard error. See shared_stream.
result<io_handle> standard_error() noexcept;

inline result<io_handle> standard_input() noexcept { return shared_stream(0); }
inline result<io_handle> standard_output() noexcept { return shared_stream(1); }
inline result<io_handle> standard_error() noexcept { return shared_stream(2); }

} // namespace unio
