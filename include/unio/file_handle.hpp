// unio/file_handle.hpp: regular files, and how they are named.
//
//   path_view     a zero-terminated path
//   path_handle   a directory to resolve relative paths from
//   file_handle   a regular file
//   async_open    opening one as an operation
//
//   file_handle::file   file_handle::temp_file   file_handle::temp_inode   file_handle::uniquely_named_file
//   file_handle::lock_file   file_handle::lock_range, from file_lock.hpp

#pragma once

#include <unio/file_lock.hpp>
#include <unio/handle.hpp>

#include <string>

namespace unio {

/// A view of a zero-terminated path, made from zero-terminated text only, so that it is never copied.
///
/// Errors  functions that take it report error::embedded_nul for a std::string with a NUL inside, and
///         ENAMETOOLONG for a name of more than 255 bytes or a path of more than 4095
/// Buffers the text must live as long as the operation that uses it
class path_view {
 public:
  constexpr path_view() = default;
  constexpr path_view(char const* text) noexcept // NOLINT: implicit
      : text_(text), size_(std::char_traits<char>::length(text)) {}
  path_view(std::string const& text) noexcept : text_(text.c_str()), size_(text.size()) {} // NOLINT: implicit
  [[nodiscard]] constexpr char const* c_str() const noexcept { return text_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  /// 0, or the negative native code for why the system cannot take it.
  [[nodiscard]] UNIO_API int check() const noexcept;

 private:
  char const* text_ = "";
  std::size_t size_ = 0;
};

/// A directory, as an anchor for relative paths. The default one stands for the working directory.
class UNIO_API path_handle : public handle {
 public:
  path_handle() = default;
  /// Opens a directory. Errors: ENOENT, ENOTDIR, EACCES, … as openat(2).
  static result<path_handle> path(path_handle const& base, path_view name) noexcept;
  static result<path_handle> path(path_view name) noexcept { return path({}, name); }

 private:
  explicit path_handle(int fd) noexcept : handle(fd, handle_kind::path) {}
};

/// A regular file. As io_handle; reads and writes at offsets are independent of each other. Size: 16 bytes.
class UNIO_API file_handle : public io_handle {
 public:
  file_handle() = default;

  /// Opens or creates a file, with the permissions 0666 minus the umask. mode::write also reads; mode::append
  /// only appends; mode::none and mode::attributes open an existing name without opening the file (O_PATH).
  ///
  /// Returns  the handle, close-on-exec. Anything but a regular file is opened without waiting (O_NONBLOCK).
  ///          A FIFO, or a device without a position (a terminal), is then used like a pipe_handle
  /// Errors   as openat(2) and renameat2(2); error::embedded_nul; ENAMETOOLONG; EINVAL for contradictory
  ///          arguments (to truncate a file opened for reading, to create without access): nothing is created
  /// Cost     three system calls, because an existing name may be anything; one if it must not exist; three
  ///          with creation::always_new; one more with caching::safety_barriers if it may create
  /// Runs as  openat(2); see async_open for the awaited form
  /// Source   D2052R0 §4.1
  static result<file_handle> file(path_handle const& base, path_view name, mode m = mode::read,
                                  creation c = creation::open_existing, caching k = caching::all,
                                  flag f = flag::none) noexcept;
  /// A new file with a random name in `directory` (by default TMPDIR, or /tmp), removed when the handle is
  /// closed. Only its owner may read it. Errors: as file(); EINVAL for a '/' in `prefix`.
  static result<file_handle> temp_file(path_handle const& directory = {},
                                       path_view prefix = "unio-") noexcept;
  /// A file that never has a name, and disappears with its last handle. On a filesystem without such files
  /// (EOPNOTSUPP) it has a random name for a moment.
  static result<file_handle> temp_inode(path_handle const& directory = {}) noexcept;
  /// A new file in `directory` with a random name beginning with `prefix`, which stays. Only its owner can
  /// read it.
  static result<file_handle> uniquely_named_file(path_handle const& directory,
                                                 path_view prefix = "") noexcept;

  file_handle(file_handle&&) = default;
  file_handle& operator=(file_handle&& other) noexcept;
  ~file_handle();

  /// Its length in bytes.
  [[nodiscard]] result<extent_type> maximum_extent() const noexcept;
  /// Sets its length; added bytes read as zero. Errors: EFBIG, EINVAL, EPERM as ftruncate(2). Returns `size`.
  result<extent_type> truncate(extent_type size) noexcept;
  /// Makes `bytes` from `offset` read as zero and gives their storage back if the filesystem can; otherwise
  /// writes zeros. The length does not change. Errors: EFBIG, ENOSPC, EPERM as fallocate(2); EOPNOTSUPP if
  /// only writing is possible and the file was opened for appending.
  result<void> zero(extent_type offset, extent_type bytes) noexcept;
  /// Removes its current name, after checking that the name still leads to this inode. If another process
  /// puts another file there between the check and the removal, that file is removed: Linux has no
  /// conditional removal. Errors: ENOENT if the name leads elsewhere; as unlinkat(2).
  result<void> unlink() noexcept;

  /// lock_range, try_lock_range, try_lock_range_for, …, co_lock_range, …: see async_lock_range.
  UNIO_VERB_FORMS(lock_range, async_lock_range, (extent_type offset, extent_type bytes, lock_kind kind),
                  offset, bytes, kind)
  /// lock_file, try_lock_file, try_lock_file_for, …, co_lock_file, …: see async_lock_file.
  UNIO_VERB_FORMS(lock_file, async_lock_file, (lock_kind kind), kind)

  /// A second handle on the same open description, with which it shares the position. No multiplexer is set
  /// on it, and closing it removes no name.
  [[nodiscard]] result<file_handle> clone() const noexcept;
  /// Closes it: caching::safety_barriers first makes it durable, flag::unlink_on_close removes its name.
  result<void> close() noexcept;
  /// The same as an operation. The work that flag and caching ask for is done before it starts, and may wait.
  [[nodiscard]] io_awaitable<async_close> co_close() && noexcept;

 protected:
  std::error_code before_close() noexcept; // what flag and caching ask for; returns the first error
  friend class async_open;
  friend struct testing::handle_maker;
  file_handle(int fd, handle_kind kind, caching c, flag f) noexcept : io_handle(fd, kind, c), flags_(f) {}
  flag flags_ = flag::none;
};

/// Opens a file; see file_handle::file.
///
/// Returns       the handle
/// Cancellation  a file that was opened nevertheless is returned
/// Buffers       `base` and the text of `name` must live until it has finished
/// Runs as       io_uring OPENAT · openat(2) on a thread that may block · openat(2)
class async_open;

/// async_open awaited, and file_handle::file as D2052R0 §4.1 spells it.
[[nodiscard]] io_awaitable<async_open> co_open(path_handle const& base, path_view name,
                                               handle::mode m = handle::mode::read,
                                               handle::creation c = handle::creation::open_existing,
                                               handle::caching k = handle::caching::all,
                                               handle::flag f = handle::flag::none, deadline d = {}) noexcept;
[[nodiscard]] result<file_handle> file(path_handle const& base, path_view name,
                                       handle::mode m = handle::mode::read,
                                       handle::creation c = handle::creation::open_existing,
                                       handle::caching k = handle::caching::all,
                                       handle::flag f = handle::flag::none) noexcept;

} // namespace unio

#include <unio/detail/file_handle.hpp>
