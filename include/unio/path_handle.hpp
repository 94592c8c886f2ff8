// unio/path_handle.hpp: a directory to resolve names from.
//
//   path_handle          an anchor: what is renamed or replaced above it does not matter any more
//   temporary_storage    what a directory for temporary files is to be kept in
//   async_open_path      opening one
//   async_parent_of      the directory in which what is open has its name

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

/// What a directory for temporary files is kept in.
enum class temporary_storage : std::uint8_t {
  any,
  disk,   ///< a filesystem on a device: room for what is large
  memory, ///< tmpfs, ramfs: fast, and taken from the memory of the machine
};

/// A directory, as an anchor for relative paths. The default one stands for the working directory.
///
/// Thread safety  distinct and shared: safe for resolving names
/// Size           16 bytes
class UNIO_API path_handle : public handle {
 public:
  path_handle() = default;
  /// Opens a directory. Errors: ENOENT, ENOTDIR, EACCES, … as openat(2). Blocking; see async_open_path.
  static result<path_handle> path(path_handle const& base, path_view name, flag f = flag::none) noexcept;
  static result<path_handle> path(path_view name) noexcept { return path({}, name); }

  /// The first of these directories that can be trusted and used: what the variables TMPDIR, TMP, TEMP and
  /// TEMPDIR name (absolute paths; not in a set-user-id program), XDG_RUNTIME_DIR, /tmp, /var/tmp, /dev/shm.
  ///
  /// Verified  it is a directory, not a link to one; it belongs to this user or to root; others can write to
  ///           it only if it is sticky, so that they cannot remove this user's files; it is kept in what
  ///           `where` says; a file can be created in it
  /// Errors    what was wrong with the last of them: ENOENT, ENOTDIR, EACCES (not to be trusted), EROFS, …
  /// Cost      some seven system calls for each that is looked at. May block. Keep the handle: it stays the
  ///           directory that was verified
  static result<path_handle> temporary(temporary_storage where = temporary_storage::any) noexcept;

  /// barrier, try_barrier, …: names that were made, renamed or removed in it are durable. Not of the default
  /// one (EBADF): path(".") opens the working directory. See async_barrier.
  UNIO_VERB_FORMS(barrier, async_barrier, (barrier_kind, what, = barrier_kind::wait_all))

 protected:
  friend struct detail::opened<path_handle>;
  explicit path_handle(int fd, handle_kind kind = handle_kind::path) noexcept : handle(fd, kind) {}
};

// Names that lead nowhere else. With flag::beneath (path_handle::path, file_handle::file,
// directory_handle::directory, and their operations) no part of the name, no ".." and no symbolic link leads
// out of `base`, whatever others rename or replace: EXDEV. Use it for names that come from outside.
// The other operations on names (stat, unlink, rename, …) resolve the directories of a name without such a
// promise: open the directory with flag::beneath, and give them the last part of the name alone, which they
// do not follow.
//
// The kernel resolves the name (openat2(2), RESOLVE_BENEATH); while something is renamed or mounted anywhere
// in the system it may say EAGAIN, and is asked again. Where it cannot (before Linux 5.6, or a seccomp filter
// that does not know the call) the name is walked part by part, with the same result and more system calls.

/// Opens a directory as an anchor.
///
/// Returns       the handle
/// Errors        as path_handle::path
/// Cancellation  the deadline and a stop bound the wait to begin; a handle that was opened nevertheless is
///               closed again, unless the result is taken
/// Buffers       `name` must live until it has finished
/// Cost          one system call if all parts of the name are in the kernel's cache of names, made at once;
///               otherwise a thread that may block makes another
/// Runs as       openat2(2) with RESOLVE_CACHED, openat(2)
UNIO_OPERATION_AND_VERB(open_path, detail::opened<path_handle>, (path_handle const&, base), (path_view, name),
                        (handle::flag, f, = handle::flag::none))

/// The directory in which what a handle has open has its current name. It was verified: through it that name
/// leads to this inode. It stays this directory, whatever is renamed; the name may move away from it.
///
/// Returns       the directory
/// Errors        ENOENT if it has no name, or one that cannot be reached
/// Cost          four system calls
/// Runs as       readlinkat(2) of /proc/self/fd, openat(2), statx(2) on a thread that may block
/// Source        docs/features.md H-05
UNIO_OPERATION_AND_VERB(parent_of, detail::opened<path_handle>, (handle const&, h))

inline result<path_handle> handle::parent_path_handle() const noexcept { return parent_of(*this); }

} // namespace unio
