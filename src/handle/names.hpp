// src/handle/names.hpp: names and how they are opened: for each of these the only place, for all floors.
//
//   opening        open_at, open_to_read, open_resolved, reopen; descriptor closes what it has open
//   a path         split_path, parts_of, directory_part
//   by descriptor  descriptor_path, put_name_of, path_of, has_name, find_name
//   random names   random_name, with_random_name
//   changing       rename, link_open_file, unlink_current, change_mode
//   to the disk    make_durable, sync_folder

#pragma once

#include <unio/file_operations.hpp>
#include <unio/path_handle.hpp>

#include <cerrno>
#include <string_view>
#include <utility>

namespace unio::inline v0_1::detail {

inline constexpr std::size_t longest_path = 4095; // PATH_MAX without the terminating NUL
inline constexpr std::size_t longest_name = 255;  // NAME_MAX

/// A path on the stack, zero-terminated.
struct path_buffer {
  char text[longest_path + 1];
};

/// The directory argument of openat(2) and the like for a path_handle.
int directory_of(path_handle const& base) noexcept;

/// openat(2), close-on-exec, with a descriptor above 2. Returns it, or a negative code.
UNIO_API int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept;
/// The same to read it, without waiting for the other end of a FIFO or for a device; but for the end of a
/// lease that another process has of the file, or another machine, as open(2) does (fcntl(2), F_SETLEASE).
UNIO_API int open_to_read(int directory, char const* name, int more_flags = 0) noexcept;
/// Opens what `fd` leads to anew: a description of its own, with its own flags and position. Returns a
/// close-on-exec descriptor above 2, or a negative code: EACCES where this process may not open it, though it
/// has it open.
int reopen(int fd, int flags) noexcept;

/// Closes its descriptor, which is above 2.
class descriptor {
 public:
  UNIO_API explicit descriptor(std::int64_t fd = -1) noexcept;
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() { reset(-1); }
  /// It, or the negative code for which there is none.
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  UNIO_API void reset(std::int64_t fd) noexcept;

 private:
  int fd_;
};

/// fsync(2) of a file or a directory, where there is something to be made durable: the one place that decides
/// which of its errors say that there is nothing. Returns 0 or a negative code.
UNIO_API int make_durable(int fd) noexcept;
/// The same of the names in a folder, which may be opened by O_PATH. Returns 0 or a negative code: EACCES for
/// one that may not be read.
UNIO_API int sync_folder(int folder) noexcept;
/// What direct I/O on `fd` has to be aligned to: 1; 0 if the kernel does not say; or -errno.
int look_up_direct_alignment(int fd, io_alignment& found) noexcept;

/// The length of the part of `path` that names its directory, with the last slash.
std::size_t directory_part(char const* path) noexcept;

/// The two parts of a path: what stands before its last slash ("/" of the root; empty if there is none), and
/// what follows.
struct path_parts {
  std::string_view folder;
  std::string_view name;
};
UNIO_API path_parts parts_of(std::string_view path) noexcept;

/// A path as a directory and a name in it. Both are copied.
struct split_path {
  char folder[longest_path + 2];
  char name[longest_name + 1];
  bool has_slash = false; ///< the path ends in one

  /// 0; or -EINVAL for what has no name of its own: "/", "." and "..", at the end of a path, too.
  UNIO_API int set(path_view path) noexcept;
};

/// openat2(2) with RESOLVE_… flags, asked again while something else in the system is renamed (EAGAIN);
/// where there is no such call, by walking part by part. Otherwise as open_at().
UNIO_API int open_resolved(int directory, char const* name, int flags, unsigned permissions,
                           std::uint64_t resolve) noexcept;

/// The path of a descriptor below /proc, which leads to what it has open, whatever its name is.
struct descriptor_path {
  UNIO_API explicit descriptor_path(int fd) noexcept;
  char text[32];
};
/// Writes that path, with a NUL. Returns its length.
std::size_t put_name_of(int fd, path_buffer& out) noexcept;

/// A name that leads to what a descriptor has open, in an open directory.
struct verified_name {
  verified_name() = default;
  verified_name(verified_name const&) = delete;
  verified_name& operator=(verified_name const&) = delete;
  ~verified_name();
  int directory = -1;
  char const* leaf = nullptr; ///< in `path`
  bool is_directory = false;  ///< what has the name
  path_buffer path;
};
/// Whether the name leads to what `fd` has open. False as well if the kernel does not say.
bool has_name(int directory, char const* name, int fd) noexcept;
/// Finds the current name of `fd`. Returns 0 or a negative code: ENOENT if it has none that can be reached;
/// EAGAIN if it is renamed all the time.
int find_name(int fd, verified_name& found) noexcept;

/// Removes the current name of `fd`. Between the check and the removal another process can still put
/// something else there: Linux has no conditional removal. Returns 0 or a negative code.
int unlink_current(int fd) noexcept;

/// renameat2(2), which some filesystems have without flags only. no_replace is then made of other calls, none
/// of which can replace what another process has put there:
///
///   what is no directory   linkat(2); then the old name is ended. If this process is killed in that, the old
///                          name stays, or is .unio-moved-…. Where there are no links, see names.cpp
///   a directory            mkdirat(2) takes the name, and rename(2), which replaces a directory only if that
///                          is empty, puts it there. An empty directory has the name for a moment; and stays,
///                          if this process is killed in it
///
/// An empty directory that another process has exchanged for that one is replaced.
UNIO_API int rename(int from_directory, char const* from, int to_directory, char const* to,
                    relink_mode how) noexcept;

/// Gives what is open, which may have no name, the name `to`. Never replaces: EEXIST. Returns 0 or a negative
/// code: ENOENT for a file whose names were all removed, and without CAP_DAC_READ_SEARCH where /proc is not
/// mounted.
UNIO_API int link_open_file(int fd, int to_directory, char const* to) noexcept;

/// Sets the mode of what has the name, which may be another's by now, without following a link there. Returns
/// 0 or a negative code: EOPNOTSUPP for a link.
UNIO_API int change_mode(int directory, char const* name, unsigned mode) noexcept;

/// The current path of `fd`. Returns the length, or a negative code.
UNIO_API int path_of(int fd, path_buffer& out) noexcept;

/// Writes `before` (at most 239 bytes), 64 random bits in hexadecimal, and a NUL. Returns 0 or a negative
/// code; then the name is empty.
UNIO_API int random_name(char (&to)[longest_name + 1], std::string_view before) noexcept;

/// Writes 64 random bits in hexadecimal, and a NUL, behind the first `n` bytes of `out`. Returns 0 or a
/// negative code: ENAMETOOLONG if there is no room.
int append_random_name(path_buffer& out, std::size_t n) noexcept;

/// Copies the prefix of a random name, which must not lead to another directory. Returns its length or a
/// negative code.
int begin_random_name(path_view prefix, path_buffer& out) noexcept;

/// Calls `create(char const*)` with random names that begin with the first `n` bytes of `out` until one is
/// free, 100 times at most. Returns the last result of `create`; the name is in `out`.
template <class Create> int with_random_name(path_buffer& out, std::size_t n, Create create) noexcept {
  for (int tries = 1;; ++tries) {
    if (int const r = append_random_name(out, n); r < 0) return r;
    // A collision of 64 random bits is practically impossible; but a filesystem may say so each time.
    if (int const r = create(out.text); r != -EEXIST || tries == 100) return r;
  }
}

} // namespace unio::detail
