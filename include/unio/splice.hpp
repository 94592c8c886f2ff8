// unio/splice.hpp: moving bytes between two handles inside the kernel.
//
//   async_splice   unio::splice, try_splice, …, co_splice, …
//   async_tee      unio::tee, try_tee, …, co_tee, …
//
//   std::size_t const n = unio::splice(from, to, {.bytes = 65536}).value();       // two io_handle&
//   std::size_t const m = (co_await unio::co_tee(pipe, other, 65536, 1s)).value(); // two pipes
//
// From a file into a pipe, splice moves references to the pages of the cache, not bytes: what is written to
// the file afterwards may be what the reader of the pipe gets, and on its way through a pipe data has no
// moment at which it was taken (splice(2), "NOTES"; rust-lang/rust#108283). To copy a file use
// file_handle::clone_extents_to. tee shares pages likewise, between two pipes.
//
// Thread safety  counts as a read of the one handle and a write of the other: one of each at a time

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

/// What to move. One of the two handles is a pipe; the offsets are for the other one, if it can seek.
struct splice_request {
  std::size_t bytes = 0;
  extent_type from_offset = no_offset;
  extent_type to_offset = no_offset;
};

/// Moves up to `bytes` from one handle to another inside the kernel; waits for the first byte.
///
/// Returns       how many bytes moved; 0 at the end of the source
/// Errors        condition::timed_out, would_block, canceled (then nothing moved); EPIPE; EINVAL if no pipe
/// Lifetime      the handles stay open until it has finished
/// Cancellation  bytes that moved are reported
/// Cost          no copy; one system call when both are ready
/// Runs as       io_uring POLL_ADD, then splice(2) (the ring's own SPLICE always takes a kernel thread, and
///               is used for regular files only) · splice(2) on readiness, for a regular file on a thread
///               that may block · the same with poll(2)
/// Source        splice(2)
class async_splice;

/// Duplicates up to `bytes` from one pipe into another, without taking them out of the first; waits for the
/// first byte. What was not read yet is seen by the next splice or read.
///
/// Returns       how many bytes the other pipe got; 0 at the end of the source
/// Errors        condition::timed_out, would_block, canceled (then nothing moved); EPIPE; EINVAL if one is no
///               pipe, or both are the same
/// Lifetime      the handles stay open until it has finished
/// Cancellation  bytes that were duplicated are reported
/// Cost          no copy; one system call when both are ready
/// Runs as       as async_splice between pipes: readiness, then tee(2)
/// Source        docs/features.md L-02; tee(2)
class async_tee;

} // namespace unio

#include <unio/detail/splice.hpp>
