// unio/map_guard.hpp: what becomes of a program that touches memory of a file that was cut short.
//
// A file that is mapped can be truncated by anybody who may write it. Memory of the map beyond the new end
// raises SIGBUS when it is touched, which ends the process. Nothing but a signal handler can prevent that for
// a plain load; asking before each access (mincore, MADV_POPULATE_READ) is no protection, because the file
// may be cut between the question and the access. So:
//
//   * by default the library touches no signal handler. What may have been cut is read and written through
//     the kernel, which reports an error: read_copy, write_copy, async_write
//   * a program that wants plain loads to survive calls guard_maps() once
//
// The handler puts a page of zeros where the access failed, notes that the map was cut, and returns: the load
// yields zeros, no stack is unwound, and views stay valid. was_cut() says so afterwards, and update puts the
// file back in place.

#pragma once

#include <unio/config.hpp>
#include <unio/result.hpp>

#include <cstdint>

namespace unio::inline v0_1 {

/// What the memory of a map may be used for, and whether changes reach the file.
enum class map_access : std::uint8_t {
  read,          ///< only read: writing raises SIGSEGV
  write,         ///< changes are the file's
  copy_on_write, ///< changes are this map's, and are lost with it
};

/// Has accesses to maps of files that were cut short yield zeros instead of ending the process, from now on
/// and for all maps of the library, of which 1024 at a time are known.
///
/// Effects       installs a handler for SIGBUS, once per process. Signals that are no access beyond the end
///               of such a file go to the handler that was there before: a fault elsewhere, broken memory
///               (BUS_MCEERR_AR), kill(2)
/// Errors        as sigaction(2)
/// Concurrency   a program that installs a handler of its own for SIGBUS later replaces this one. A thread
///               that blocks SIGBUS is not protected
/// Cost          two system calls; none after the first time. A place in a table for each map
/// Source        FEATURES H-10; sigaction(2), mmap(2)
UNIO_API result<void> guard_maps() noexcept;

} // namespace unio
