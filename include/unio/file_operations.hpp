// unio/file_operations.hpp: the length of a file, its space, and what of it holds data. Included by
// file_handle.hpp.
//
//   async_truncate        file_handle::truncate, try_truncate, co_truncate, …
//   async_maximum_extent  maximum_extent: its length
//   async_zero            zero: reads as zero, and gives the storage back
//   async_allocate        allocate: keeps storage for it
//   async_advise          advise: how it will be read
//   async_write_back      write_back: starts writing to the device
//   async_extents         extents: where there is data
//   async_clone_extents   clone_extents_to: the same data in another file
//   direct_alignment      what I/O that bypasses the cache has to be aligned to
//
// All of them: a thread of the library makes the call, on every driver (a ring would give it to a thread of
// the kernel, which takes longer to start); without a multiplexer the calling thread. No allocation. Where
// nothing else is said:
//
//   Returns       nothing
//   Cancellation  the deadline and a stop bound the wait to begin: the kernel does not interrupt them
//   Cost          one system call. What may make a file longer looks at RLIMIT_FSIZE as async_write does
//
// Direct I/O (caching::none, caching::only_metadata) needs the memory, the offset and the length of each
// transfer to be multiples of direct_alignment(). The buffers of a buffer_pool whose size is a multiple of
// 4096 are aligned to 4096. Of a file whose length is no multiple, the tail is written padded, and then cut
// off: write({padded, at}), then truncate(length).

#pragma once

#include <unio/handle.hpp>

#include <span>

namespace unio::inline v0_1 {

class file_handle;

/// A range of a file.
struct file_extent {
  extent_type offset = 0;
  extent_type bytes = 0;
  bool operator==(file_extent const&) const = default;
};

/// Whether the space that is kept for a file becomes a part of it.
enum class allocation : std::uint8_t {
  grow,      ///< the file is as long as the range demands; new bytes read as zero
  keep_size, ///< its length stays; later writes beyond it find their space
};

/// How a range will be used. A hint: it changes speed and nothing else.
enum class access_advice : std::uint8_t {
  normal,     ///< as any file
  sequential, ///< from front to back: the kernel reads further ahead
  random,     ///< here and there: it does not read ahead
  will_need,  ///< soon: it begins to read
  dont_need,  ///< no more: cached pages that are on the device are dropped
  no_reuse,   ///< once
};

/// How clone_extents_to has copied: the way of the last step that moved bytes.
enum class clone_way : std::uint8_t {
  none,           ///< there was no data
  shared,         ///< the files share the storage until one of them changes (FICLONERANGE)
  in_kernel,      ///< the kernel copied (copy_file_range)
  read_and_write, ///< through a buffer
};

struct clone_result {
  extent_type bytes = 0;      ///< of the range that are as in the source now, from its beginning
  extent_type data_bytes = 0; ///< of these, those that were moved or shared; the others are holes
  clone_way way = clone_way::none;
};

/// What direct transfers have to be multiples of, in bytes.
struct io_alignment {
  std::uint32_t memory = 0;      ///< 0: the file has no direct I/O
  std::uint32_t offset = 0;      ///< of offset and length
  std::uint32_t read_offset = 0; ///< of reads, where that is less
};

/// Sets the length of a file; added bytes read as zero.
///
/// Returns       `size`
/// Errors        EFBIG, EINVAL, EPERM as ftruncate(2); condition::timed_out, would_block, canceled: not begun
/// Runs as       ftruncate(2) on a thread that may block. A mapped file's map follows
/// Source        docs/features.md H-04, L-02; ftruncate(2)
UNIO_OPERATION(truncate, detail::with<detail::referred<io_handle>>::yields<extent_type>, (io_handle&, h),
               (extent_type, size))

/// The length of a file.
///
/// Returns       bytes
/// Errors        as fstat(2). try_maximum_extent, which never waits: would_block where the answer may be on
///               another machine
/// Runs as       statx(2) at once for a file on a local device, otherwise on a thread that may block
/// Source        docs/features.md H-04; statx(2)
UNIO_OPERATION(maximum_extent, extent_type, (io_handle&, h))

/// Makes `bytes` from `offset` read as zero and gives their storage back if the filesystem can; otherwise
/// writes zeros. The length does not change.
///
/// Errors        EFBIG, ENOSPC, EPERM as fallocate(2); EOPNOTSUPP if only writing is possible and the file
///               was opened for appending
/// Runs as       fallocate(2), pwritev2(2) on a thread that may block
/// Source        docs/features.md H-04, L-02; fallocate(2)
UNIO_OPERATION(zero, void, (io_handle&, h), (extent_type, offset), (extent_type, bytes))

/// Keeps storage for `bytes` from `offset` on, so that writing there finds space. Never emulated: where the
/// filesystem cannot, nothing is written.
///
/// Errors        ENOSPC, EFBIG, EOPNOTSUPP, EINVAL for no bytes, as fallocate(2)
/// Runs as       fallocate(2) on a thread that may block
/// Source        docs/features.md L-02; fallocate(2)
UNIO_OPERATION(allocate, void, (io_handle&, h), (extent_type, offset), (extent_type, bytes),
               (allocation, how))

/// Tells the kernel how a range (of 0 bytes: to the end) will be used.
///
/// Errors        EINVAL, ESPIPE as posix_fadvise(2)
/// Runs as       posix_fadvise(2), at once unless it starts or ends I/O (will_need, dont_need)
/// Source        docs/features.md L-02; posix_fadvise(2)
UNIO_OPERATION(advise, void, (io_handle&, h), (extent_type, offset), (extent_type, bytes),
               (access_advice, what))

/// Starts writing what is cached of a range (of 0 bytes: to the end) to the device, and does not wait for it.
/// Nothing is durable afterwards, whatever it says: that is what barrier is for.
///
/// Errors        EIO, ENOSPC, ESPIPE as sync_file_range(2)
/// Runs as       sync_file_range(2) on a thread that may block
/// Source        docs/features.md L-02; sync_file_range(2)
UNIO_OPERATION(write_back, void, (io_handle&, h), (extent_type, offset), (extent_type, bytes))

/// Finds the parts of a file that hold data, from `from` on; what is between them reads as zero. A
/// filesystem that cannot tell has data everywhere.
///
/// Effects       fills `into` in ascending order; the position of the handle does not move
/// Returns       what was filled. If that is all of `into` there may be more: call again with the end of the
///               last. Empty: no data from there on
/// Errors        as lseek(2), fstat(2)
/// Buffers       `into` is the caller's until it has finished
/// Concurrency   a snapshot of a file that others write is none. This process must not take a POSIX lock
///               (F_SETLK) on the file before its end: it would be lost. One that it has stays, as do unio's
/// Runs as       lseek(2) on a description of its own, on a thread that may block; where none is opened (no
///               /proc, may not be read, another description has a lock on the file) data is everywhere
/// Source        docs/features.md H-04; lseek(2)
UNIO_OPERATION(extents, detail::filled<std::span<file_extent>>, (io_handle&, h),
               (std::span<file_extent>, into), (extent_type, from))

/// Makes `bytes` of another file from `to_offset` on the same as those of this one from `offset` on (as far
/// as it has so many). What are holes here are holes there.
///
/// Returns       what was done. Stopped by a deadline or a cancel after it had begun: how far it came
/// Errors        EBADF unless this is readable and the other one writable, and not for appending only; EIO,
///               ENOSPC, EDQUOT, EFBIG: part of the range may have been copied. Both files are as written
///               before, where they were not to be changed
/// Preconditions both handles are open, and outlive it
/// Concurrency   overlapping ranges of one file end as if the source had been read before anything was
///               written; such a copy is not stopped. Holes are found as by extents: see there
/// Cancellation  between steps of 64 MiB (shared: not at all, it takes no time)
/// Cost          no allocation; while it reads and writes, 512 KiB of mapped memory
/// Runs as       FICLONERANGE; copy_file_range(2), 64 MiB at a time; pread and pwrite: the first that the
///               filesystems can do, on a thread that may block. EIO and ENOSPC are no reason to try the next
/// Source        docs/features.md H-04; ioctl_ficlonerange(2), copy_file_range(2)
class async_clone_extents;

} // namespace unio

#include <unio/detail/file_operations.hpp>
