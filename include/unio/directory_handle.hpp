// unio/directory_handle.hpp: directories that are listed.
//
//   directory_handle       lists a directory; an anchor for names too
//   async_open_directory   opening or making one
//   async_read_directory   directory_handle::read, co_read, …

#pragma once

#include <unio/path_handle.hpp>

namespace unio::inline v0_1 {

class directory_handle;

/// Lists the next entries of a directory.
///
/// Effects       fills the buffer with entries, until it has no room for one more or the directory ends. What
///               the filter does not want takes no room: then it reads on
/// Returns       the entries, whether these were the last, and whether they are a snapshot
/// Errors        EINVAL: the buffer has less than largest_directory_record bytes, or a longer name comes next
///               that does not fit (see directory_entry::name). ENOENT: the directory was
///               removed. Otherwise as getdents64(2)
/// Preconditions the handle is open
/// Buffers       64 KiB or more are well spent: each of its entries takes 24 … 280 bytes. The operation must
///               not be the only thing that keeps it alive
/// Concurrency   one read at a time; reads through a descriptor that was duplicated share the position
/// Cancellation  the deadline and a stop bound the wait to begin; a read that is stopped has read nothing
/// Cost          no allocation, no copy but of what follows an entry that is not wanted. Two system calls
///               where the directory ends, three at its beginning
/// Runs as       getdents64(2) on a thread that may block
/// Source        docs/features.md H-07; getdents64(2)
UNIO_OPERATION(read_directory, directory_listing, (directory_handle const&, h), (mutable_buffer, buffer),
               (directory_filter, filter, = {}))

/// A directory. It reads on where the last read has ended. As a path_handle, which it is, it anchors names.
///
/// Thread safety  distinct: safe; shared: one read at a time; any number of other operations
/// Moved-from     closed
/// Size           16 bytes
class UNIO_API directory_handle : public path_handle {
 public:
  directory_handle() = default;
  /// Opens a directory, or makes it, with 0777 minus the umask.
  ///
  /// Preconditions  `c` is creation::open_existing, only_if_not_exist (EEXIST) or if_needed; else EINVAL
  /// Errors         ENOENT, ENOTDIR (also if a symbolic link was put in the place of one that was just
  ///                made), EACCES, EMFILE, … as mkdirat(2), openat(2)
  /// Cost           one system call, two if it may be made. Blocking; see async_open_directory
  static result<directory_handle> directory(path_handle const& base, path_view name,
                                            creation c = creation::open_existing,
                                            flag f = flag::none) noexcept;
  static result<directory_handle> directory(path_view name) noexcept { return directory({}, name); }
  /// Takes over a descriptor made elsewhere, as io_handle::adopt. Errors: EBADF; ENOTDIR;
  /// as fcntl(2). On failure the descriptor is still the caller's.
  static result<directory_handle> adopt(int fd) noexcept;

  /// read, try_read, …, co_read, …: see async_read_directory.
  UNIO_VERB_FORMS(read, async_read_directory, (mutable_buffer, buffer), (directory_filter, filter, = {}))
  /// The next read begins anew, and sees what the directory has then. There is no other seeking: positions
  /// between two entries mean nothing after a change. Waits for a read that is under way. Errors: EBADF if it
  /// is closed.
  result<void> rewind() noexcept;

  /// A second handle on the same directory with a position of its own, at the beginning. Errors: EMFILE,
  /// EACCES.
  [[nodiscard]] result<directory_handle> clone() const noexcept;

 private:
  friend struct detail::opened<directory_handle>;
  explicit directory_handle(int fd) noexcept : path_handle(fd, handle_kind::directory) {}
};

/// Opens a directory, or makes it; see directory_handle::directory.
///
/// Returns       the directory
/// Cancellation  one that was opened nevertheless is closed again, unless the result is taken; one that was
///               made stays
/// Buffers       `name` must live until it has finished
/// Cost          see async_open_path
UNIO_OPERATION_AND_VERB(open_directory, detail::opened<directory_handle>, (path_handle const&, base),
                        (path_view, name), (handle::creation, c, = handle::creation::open_existing),
                        (handle::flag, f, = handle::flag::none))

} // namespace unio
