// unio/extend/raw_ring.hpp: the ring itself, for what unio has no operation for.
//
//   async_raw_ring               an operation of io_uring whose entry the caller fills in
//   raw_ring, co_raw_ring        the same, blocking and awaited
//   ring_completion              what the kernel says of it
//   ring_operations              which operations there are, which the kernel knows, what unio uses them for
//
//   auto const waiting = co_await unio::co_raw_ring(socket, [](io_uring_sqe& e) {
//     e.opcode = IORING_OP_URING_CMD;
//     e.cmd_op = SOCKET_URING_OP_SIOCINQ;
//   });
//
// Not part of unio/unio.hpp. The caller includes <linux/io_uring.h> or <liburing.h>, which define
// io_uring_sqe; liburing's io_uring_prep_… take `&e`.

#pragma once

#include <unio/handle.hpp>

#include <concepts>
#include <string>
#include <vector>

namespace unio::inline v0_1 {

/// What the kernel says of an entry that has not failed.
struct ring_completion {
  int res = 0;        ///< >= 0; what it means the operation says
  unsigned flags = 0; ///< IORING_CQE_F_…
};

/// One operation of io_uring, described by `fill`, which is called with the entry: zeroed, but for its `fd`,
/// which is that of the handle, or -1. An operation like any other: it runs on a multiplexer's ring and
/// completes through it, in each style, with a deadline; closing the handle ends it.
///
/// Constructors  async_raw_ring(fill, deadline = {}, m = nullptr)
///               async_raw_ring(handle, fill, deadline = {}, m = nullptr): on the handle's multiplexer, if it
///               has one, otherwise on `m`; if neither is given, on that of the thread that starts it
/// Returns       what the kernel said. The value is delivered with the first completion, the end with the
///               last: of a zero-copy send with its notification
/// Errors        what the kernel said, if that is an error, EAGAIN, EINTR and ECANCELED included;
///               ENOSYS (std::errc::function_not_supported): there is no ring here, or its kernel does not
///               know the operation; EINVAL: the entry is refused, see below; ENOTRECOVERABLE: io_uring was
///               forbidden by then, and whether it was performed is not known; condition::timed_out,
///               canceled; condition::would_block with a deadline of zero, always, for it takes a turn of the
///               loop
/// Refused       all that would take from unio what is unio's. The user_data: it is overwritten, and entries
///               that name others by theirs (ASYNC_CANCEL, POLL_REMOVE, TIMEOUT_REMOVE, LINK_TIMEOUT) are
///               refused, as only cancel() knows it. IOSQE_IO_LINK, IO_HARDLINK and IO_DRAIN: the next entry
///               of the queue is another operation's. IOSQE_CQE_SKIP_SUCCESS: it would never end. The ring's
///               tables: IOSQE_FIXED_FILE, FILES_UPDATE, descriptors that are put into the table
///               (`file_index`) or sent out of it; IOSQE_BUFFER_SELECT, PROVIDE_BUFFERS, REMOVE_BUFFERS. And
///               what completes many times: ACCEPT, RECV, RECVMSG, POLL_ADD and TIMEOUT in their multishot
///               forms, READ_MULTISHOT, RECV_ZC. What needs entries of 128 or completions of 32 bytes (NVMe
///               commands) the kernel refuses: unio's rings have the small ones
/// Preconditions `fill` does not throw; it may be called again before the operation has ended, and after
///               reset() is
/// Buffers       the caller's, and the kernel's until the operation has finished. `fill` is a part of the
///               operation, which stays where it is until then: an entry may point to what `fill` holds. A
///               descriptor that `res` names is the caller's: it is lost if the operation is destroyed while
///               in flight
/// Concurrency   as io_operation; how many at once on one descriptor, the kernel's operation says
/// Cancellation  by ASYNC_CANCEL. A completion that is no error beats a stop and a deadline
/// Cost          no allocation; a place in the next io_uring_enter(2)
/// Runs as       the entry · ENOSYS on epoll · in a simulation ENOSYS, and it is named as not simulated
/// Source        docs/features.md L-07; io_uring_enter(2)
template <std::invocable<io_uring_sqe&> Fill> class async_raw_ring;

/// There are no try_ forms: only the ring could try, so each would say would_block. A deadline bounds these.
///
/// async_raw_ring, blocking: on the multiplexer given, or the calling thread's own, which is driven
/// until then. (run_blocking() of a sender without a multiplexer has no ring: ENOSYS.)
template <std::invocable<io_uring_sqe&> Fill>
io_result<ring_completion> raw_ring(Fill fill, deadline d = {}, io_multiplexer* m = nullptr) noexcept;
template <std::invocable<io_uring_sqe&> Fill>
io_result<ring_completion> raw_ring(handle const& h, Fill fill, deadline d = {},
                                    io_multiplexer* m = nullptr) noexcept;
/// async_raw_ring, awaited.
template <std::invocable<io_uring_sqe&> Fill>
[[nodiscard]] io_awaitable<async_raw_ring<Fill>> co_raw_ring(Fill fill, deadline d = {},
                                                             io_multiplexer* m = nullptr) noexcept;
template <std::invocable<io_uring_sqe&> Fill>
[[nodiscard]] io_awaitable<async_raw_ring<Fill>> co_raw_ring(handle const& h, Fill fill, deadline d = {},
                                                             io_multiplexer* m = nullptr) noexcept;

/// An operation of io_uring.
struct ring_operation {
  unsigned number = 0;
  std::string name;      ///< the kernel's, without IORING_OP_; empty if it is newer than this library
  bool is_known = false; ///< to the running kernel, which offers it to this process
  bool is_used = false;  ///< by unio
  std::string use;       ///< by which operations of unio; or why not
};

/// The operations of io_uring, by their numbers: those that this library has a name for, and newer ones that
/// the kernel knows. Where a ring can neither be made nor entered, none is known.
///
/// Throws       std::bad_alloc
/// Concurrency  from any thread
/// Cost         a ring, which is made, asked (IORING_REGISTER_PROBE) and closed; allocates
/// Source       docs/features.md L-01
UNIO_API std::vector<ring_operation> ring_operations();

} // namespace unio

#include <unio/detail/raw_ring.hpp>
