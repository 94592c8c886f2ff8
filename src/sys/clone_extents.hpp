// src/sys/clone_extents.hpp: copies bytes from one file to another, in the cheapest way that works.
//
//   copy_extents   the ladder below
//   next_data      where a file has data
//   make_hole      makes a range of a file read as zero
//   extend         makes a file longer
//
// The ladder, from the top; a rung that does not work for these two files leads to the next:
//
//   cloned      FICLONE, FICLONERANGE: the storage is shared, nothing is copied
//   in_kernel   copy_file_range(2), for each range that holds data, 64 MiB at a time
//   buffered    read and write, with the next piece read ahead
//
// An error of the disk is never a reason to try the next rung: coreutils 9.1 did so after EIO, and could copy
// the wrong bytes. Nor is ENOSPC. Ranges without storage stay without it. splice(2) is no rung: pages of a
// file in a pipe are shared with it, so that a later write changes the "copy".

#pragma once

#include <unio/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace unio::inline v0_1::sys {

enum class copy_rung : std::uint8_t { none, cloned, in_kernel, buffered };

/// Rungs that do not work between two filesystems: learnt from the first file, used for the others.
struct copy_hints {
  std::atomic<bool> no_clone{false};
  std::atomic<bool> no_copy_in_kernel{false};
};

/// What is to be copied, and what was.
struct extents_copy {
  static constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();

  int from = -1; ///< opened for reading. Its position is moved
  int to = -1;   ///< opened for writing
  std::int64_t from_at = 0;
  std::int64_t to_at = 0;
  std::int64_t bytes = all;   ///< at most this many; `all`: until the end of `from`
  std::int64_t size = -1;     ///< of `from`, a regular file; -1: not known
  bool to_is_empty = false;   ///< its length is 0, and `to_at` too: holes need not be made
  bool may_have_holes = true; ///< false: no range of `from` is without storage
  copy_hints* hints = nullptr;
  std::byte* buffer = nullptr; ///< for reading and writing; null: one is mapped when it is needed
  std::size_t buffer_bytes = 0;
  /// Called after each piece with the bytes since the last call. A negative code ends the copy with that.
  /// If the ranges overlap it is called once, at the end.
  int (*progress)(void* context, std::int64_t bytes) = nullptr;
  void* context = nullptr;

  std::int64_t copied = 0;          ///< including holes; the two files agree so far
  std::int64_t holes = 0;           ///< of these, in ranges of `from` without storage
  std::int64_t shared = 0;          ///< of these, whose storage is shared now
  copy_rung rung = copy_rung::none; ///< the lowest that was used
};

/// Copies. If the ranges overlap in one file the result is as if all was read before any was written.
/// Returns 0, or -errno; then `copied` bytes have been (none, if the ranges overlap).
UNIO_API int copy_extents(extents_copy& c) noexcept;

/// Finds the first data from `at` on: from `first` to `last`, at most to `end`; both are `end` if there is
/// none. Moves the position of `fd`. Returns 0; 1 if the filesystem cannot tell: then all of it may be data;
/// or -errno.
UNIO_API int next_data(int fd, std::int64_t at, std::int64_t end, std::int64_t& first,
                       std::int64_t& last) noexcept;

/// Makes a range, which begins at an offset that a file may have, read as zero up to the end of the file, and
/// gives its storage back if the filesystem can. Returns 0 or -errno.
int make_hole(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

/// Makes a file as long as `length`, at least 1, unless it is that long. Never shorter, whatever other
/// processes do to it, but on filesystems without fallocate(2). Returns 0 or -errno.
int extend(int fd, std::uint64_t length) noexcept;

} // namespace unio::sys
