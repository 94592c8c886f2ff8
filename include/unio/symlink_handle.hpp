// unio/symlink_handle.hpp: symbolic links that are not followed.
//
//   symlink_handle       a link itself: stat, relink, link and unlink are of the link
//   async_open_symlink   opening one
//   async_read_symlink   symlink_handle::read, …; of a name: unio::read_symlink, …
//
// unio::make_symlink (naming.hpp) makes one, or puts it atomically in the place of another.

#pragma once

#include <unio/path_handle.hpp>

namespace unio::inline v0_1 {

class symlink_handle;

/// Reads the target of a symbolic link.
///
/// Returns       the target: a view of the buffer, 1 … 4095 bytes, without a NUL
/// Errors        ERANGE: the buffer is not larger than the target, so that some of it may be missing. EINVAL,
///               ENOENT: not a symbolic link. Otherwise as readlinkat(2)
/// Buffers       4096 bytes are enough for each; buffer and name must live until it has finished
/// Cancellation  the deadline and a stop bound the wait to begin
/// Cost          no allocation; one system call
/// Runs as       readlinkat(2) on a thread that may block
/// Source        docs/features.md H-08, L-02; readlinkat(2)
UNIO_OPERATION_ON_HANDLE_OR_NAME(read_symlink, detail::filled<std::string_view>, symlink_handle, (),
                                 (mutable_buffer, into))

/// A symbolic link. Its target never changes: another one has to take its place.
///
/// Thread safety  distinct: safe; shared: any number of operations
/// Moved-from     closed
/// Size           16 bytes
class UNIO_API symlink_handle : public handle {
 public:
  symlink_handle() = default;
  /// Opens a link. Errors: EINVAL if the name leads to something else; ENOENT, … as openat(2). Blocking.
  /// Cost: two system calls.
  static result<symlink_handle> symlink(path_handle const& base, path_view name,
                                        flag f = flag::none) noexcept;

  /// read, try_read, …, co_read, …: its target. See async_read_symlink.
  UNIO_VERB_FORMS(read, async_read_symlink, (mutable_buffer, buffer))

 private:
  friend struct detail::opened<symlink_handle>;
  explicit symlink_handle(int fd) noexcept : handle(fd, handle_kind::path) {}
};

/// Opens a symbolic link; see symlink_handle::symlink. Otherwise as async_open_path.
UNIO_OPERATION_AND_VERB(open_symlink, detail::opened<symlink_handle>, (path_handle const&, base),
                        (path_view, name), (handle::flag, f, = handle::flag::none))

} // namespace unio
