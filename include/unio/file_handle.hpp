// unio/file_handle.hpp: regular files, and how they are named.
//
//   file_handle   a regular file
//   async_open    opening one as an operation
//
//   file_handle::file   file_handle::temp_file   file_handle::temp_inode   file_handle::uniquely_named_file
//   file_handle::lock_file   file_handle::lock_range, from file_lock.hpp
//   file_handle::truncate, extents, clone_extents_to, zero, allocate, …, from file_operations.hpp

#pragma once

#include <unio/file_lock.hpp>
#include <unio/file_operations.hpp>
#include <unio/path_handle.hpp>

namespace unio::inline v0_1 {

/// A regular file. As io_handle, but any number of reads and writes at offsets may be in flight together on
/// one handle, on the thread that runs its multiplexer. Size: 16 bytes.
///
/// Name  <fcntl.h> of glibc has a struct file_handle of its own: where that is included, write
///       unio::file_handle also after `using namespace unio`
class UNIO_API file_handle : public io_handle {
 public:
  file_handle() = default;

  /// Opens or creates a file, with the permissions 0666 minus the umask. mode::write also reads; mode::append
  /// only appends: to read fails with EBADF, and a write appends whatever its offset. mode::none and
  /// mode::attributes open an existing name without opening the file (O_PATH).
  ///
  /// Returns  the handle, close-on-exec. Anything but a regular file is opened without waiting (O_NONBLOCK).
  ///          A FIFO, or a device without a position (a terminal), is then used like a pipe_handle
  /// Errors   as openat(2) and renameat2(2); error::embedded_nul; ENAMETOOLONG; EINVAL for contradictory
  ///          arguments (truncating a file opened to read, creating without access): nothing is created;
  ///          EOPNOTSUPP, or EINVAL by the kernel, if it is to bypass the cache without direct I/O: it is
  ///          never buffered silently; an empty file that creation::if_needed has made may stay
  /// Cost     three system calls, because an existing name may be anything; one if it must not exist; three
  ///          with creation::always_new; one more with caching::safety_barriers if it may create; two more to
  ///          bypass the cache
  /// Runs as  openat(2); see async_open for the awaited form
  /// Source   D2052R0 §4.1
  static result<file_handle> file(path_handle const& base, path_view name, mode m = mode::read,
                                  creation c = creation::open_existing, caching k = caching::all,
                                  flag f = flag::none) noexcept;
  /// A new file with a random name in `directory`, removed when the handle is closed. Only its owner may read
  /// it. Errors: as file(); EINVAL for a '/' in `prefix`. By default it is in path_handle::temporary(), where
  /// others cannot replace it. Cost: two system calls; without a directory those of temporary() before them.
  static result<file_handle> temp_file(path_handle const& directory = {},
                                       path_view prefix = "unio-") noexcept;
  /// A file without a name, which disappears with its last handle unless it is given one (link: written
  /// before anybody can see it; see async_link_inode). Only its owner may read it. On a filesystem without
  /// such files (EOPNOTSUPP) it has a random name for a moment, and cannot be given one later. Errors: as
  /// temp_file(). Cost: one system call; without a directory those of temporary() before it.
  static result<file_handle> temp_inode(path_handle const& directory = {}) noexcept;
  /// A new file in `directory` with a random name beginning with `prefix`, which stays. Only its owner can
  /// read it. Errors: as temp_file(). Cost: two system calls.
  static result<file_handle> uniquely_named_file(path_handle const& directory,
                                                 path_view prefix = "") noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt, with caching::all. Errors: EBADF; EISDIR;
  /// EINVAL if it is no regular file and no block device. On failure the descriptor is still the caller's.
  static result<file_handle> adopt(int fd) noexcept;

  file_handle(file_handle&&) = default;
  file_handle& operator=(file_handle&& other) noexcept;
  ~file_handle();

  /// Its length in bytes, by a call that may wait. Errors: as fstat(2).
  [[nodiscard]] result<extent_type> maximum_extent() const noexcept;
  /// The same in every style: see async_maximum_extent.
  UNIO_VERB_FORMS(maximum_extent, async_maximum_extent)
  /// Sets its length: see async_truncate.
  UNIO_VERB_FORMS(truncate, async_truncate, (extent_type, size))
  /// Makes a range read as zero and gives its storage back: see async_zero.
  UNIO_VERB_FORMS(zero, async_zero, (extent_type, offset), (extent_type, bytes))
  /// Keeps storage for a range: see async_allocate.
  UNIO_VERB_FORMS(allocate, async_allocate, (extent_type, offset), (extent_type, bytes), (allocation, how))
  /// Says how a range will be used: see async_advise.
  UNIO_VERB_FORMS(advise, async_advise, (extent_type, offset), (extent_type, bytes), (access_advice, what))
  /// Starts writing a range to the device; never durable: see async_write_back.
  UNIO_VERB_FORMS(write_back, async_write_back, (extent_type, offset), (extent_type, bytes))
  /// Where there is data: see async_extents.
  UNIO_VERB_FORMS(extents, async_extents, (std::span<file_extent>, into), (extent_type, from))
  /// Copies a range into another file, by sharing if possible: see async_clone_extents.
  UNIO_VERB_FORMS(clone_extents_to, async_clone_extents, (extent_type, offset), (extent_type, bytes),
                  (io_handle&, to), (extent_type, to_offset))
  /// What direct transfers have to be multiples of; zeros if the file has none, or the kernel does not say
  /// (before Linux 6.1). Errors: as statx(2).
  [[nodiscard]] result<io_alignment> direct_alignment() const noexcept;

  /// lock_range, try_lock_range, try_lock_range_for, …, co_lock_range, …: see async_lock_range.
  UNIO_VERB_FORMS(lock_range, async_lock_range, (extent_type, offset), (extent_type, bytes),
                  (lock_kind, kind))
  /// lock_file, try_lock_file, try_lock_file_for, …, co_lock_file, …: see async_lock_file.
  UNIO_VERB_FORMS(lock_file, async_lock_file, (lock_kind, kind))

  /// A second handle on the same open description, with which it shares the position. No multiplexer is set
  /// on it, and closing it removes no name. Errors: EMFILE; EBADF if it is closed.
  [[nodiscard]] result<file_handle> clone() const noexcept;
  /// Closes it: caching::safety_barriers first makes it durable, flag::unlink_on_close removes its name; not
  /// in a child of fork, whose copy of the handle that is.
  ///
  /// Errors  the first of: as fsync(2); as unlinkat(2), but for a name that is gone; as close(2). It is
  ///         closed in any case
  /// Cost    as handle::close(), and the barrier, and some six system calls to find and remove the name
  result<void> close() noexcept;
  /// The same as an operation, with the same errors. The work that flag and caching ask for is done before it
  /// starts, and may wait. See async_close.
  [[nodiscard]] io_awaitable<async_close> co_close() && noexcept;

 protected:
  failure before_close() noexcept; // what flag and caching ask for; returns the first error
  friend struct detail::opened<file_handle>;
  friend class async_close;
  friend struct testing::handle_maker;
  file_handle(int fd, handle_kind kind, caching c, flag f) noexcept : io_handle(fd, kind, c), flags_(f) {}
  flag flags_ = flag::none;
};

namespace detail {
template <> struct opened<file_handle> {
  static file_handle made(auto const& operation) noexcept {
    return file_handle(operation.outcome_value(), operation.opened_kind(), operation.k(), operation.f());
  }
};
} // namespace detail

/// Opens a file; see file_handle::file.
///
/// Returns       the handle
/// Cancellation  the deadline and a stop bound the wait to begin; a file that was opened nevertheless is
///               returned
/// Buffers       `base` and the text of `name` must live until it has finished
/// Cost          no thread if all parts of the name are in the kernel's cache and nothing is created: opened
///               at once. A FUSE server is then waited for, as by a ring: not to be done on its own thread
/// Runs as       openat2(2) with RESOLVE_CACHED where it may; otherwise openat(2), openat2(2) on a thread
///               that may block, on every driver, because a ring gives it to a thread of the kernel
UNIO_OPERATION_AND_VERB(open, detail::opened_as<file_handle>, (path_handle const&, base), (path_view, name),
                        (handle::mode, m, = handle::mode::read),
                        (handle::creation, c, = handle::creation::open_existing),
                        (handle::caching, k, = handle::caching::all), (handle::flag, f, = handle::flag::none))

/// As file_handle::file, as D2052R0 §4.1 spells it.
[[nodiscard]] inline result<file_handle> file(path_handle const& base, path_view name,
                                              handle::mode m = handle::mode::read,
                                              handle::creation c = handle::creation::open_existing,
                                              handle::caching k = handle::caching::all,
                                              handle::flag f = handle::flag::none) noexcept {
  return file_handle::file(base, name, m, c, k, f);
}

inline io_awaitable<async_close> file_handle::co_close() && noexcept {
  return io_awaitable<async_close>(async_close(static_cast<file_handle&&>(*this)));
}

} // namespace unio
