// src/op/file_calls.hpp: what the operations on a file's length and space share.

#pragma once

#include "handle/names.hpp"
#include "op/call.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/file_handle.hpp>

#include <fcntl.h>

#include <limits>

namespace unio::inline v0_1::detail {

/// Private state of async_clone_extents.
struct file_operation_access {
  // What to do, and how far it has come.
  struct clone {
    extent_type offset, bytes, to_offset;
    int from, to;
    clone_result& done;
    clone_way& tries;
  };
  static clone parts(async_clone_extents& op) noexcept {
    return {op.offset_, op.bytes_, op.to_offset_, op.from_, op.to_, op.done_, op.tries_};
  }
};

} // namespace unio::detail

namespace unio::inline v0_1::op {

using file_access = detail::file_operation_access;

inline constexpr extent_type largest_offset = std::numeric_limits<std::int64_t>::max(); // off_t

/// A description of the same file of its own, to read, whose position may be moved: a descriptor, or -errno.
///
/// -EBUSY, and nothing is opened, while another description has a lock on the file: it may be a POSIX lock of
/// this process, and closing any descriptor of the file would give that up (fcntl_locking(2)).
inline int read_afresh(int fd) noexcept {
  if (sys::ofd_is_locked(fd, 0, sys::to_the_end) == 1) return -EBUSY;
  return uninterrupted([&] {
    return sys::openat(AT_FDCWD, detail::descriptor_path(fd).text,
                       O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  });
}

} // namespace unio::op
