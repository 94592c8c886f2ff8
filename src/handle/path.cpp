// Directories as anchors, directories that are listed, symbolic links.

#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>

namespace unio::inline v0_1 {

static_assert(sizeof(path_handle) == 16 && sizeof(directory_handle) == 16 && sizeof(symlink_handle) == 16);

result<path_handle> path_handle::path(path_handle const& base, path_view name, flag f) noexcept {
  return detail::blocking(async_open_path(base, name, f));
}

result<directory_handle> directory_handle::directory(path_handle const& base, path_view name, creation c,
                                                     flag f) noexcept {
  return detail::blocking(async_open_directory(base, name, c, f));
}

result<void> directory_handle::rewind() noexcept {
  std::int64_t const r = sys::lseek(fd_, 0, SEEK_SET);
  if (r < 0) return detail::failed(r, "rewind", fd_);
  return {};
}

result<directory_handle> directory_handle::clone() const noexcept {
  if (!is_open()) return detail::failed(-EBADF, "clone");
  return directory(*this, ".");
}

result<symlink_handle> symlink_handle::symlink(path_handle const& base, path_view name, flag f) noexcept {
  return detail::blocking(async_open_symlink(base, name, f));
}

// ---- temporary directories ----

namespace {

// Whether only this user and root can replace what is in the directory.
bool is_trusted(struct statx const& s) noexcept {
  bool const is_ours = s.stx_uid == 0 || s.stx_uid == ::geteuid();
  bool const others_write = (s.stx_mode & (S_IWGRP | S_IWOTH)) != 0;
  return is_ours && (!others_write || (s.stx_mode & S_ISVTX) != 0);
}

int check_storage(int fd, temporary_storage where) noexcept {
  if (where == temporary_storage::any) return 0;
  struct statfs s;
  if (std::int64_t const r = sys::uninterrupted([&] { return sys::fstatfs(fd, &s); }); r < 0)
    return static_cast<int>(r);
  // Compared as 32 bits: HUGETLBFS_MAGIC and RAMFS_MAGIC have the highest one set.
  auto const type = static_cast<std::uint32_t>(s.f_type);
  bool const in_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
  return in_memory == (where == temporary_storage::memory) ? 0 : -ENODEV;
}

// Only trying tells: permissions, read-only mounts, quotas and security modules all have a say.
int check_usable(int fd) noexcept {
  int made = detail::open_at(fd, ".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
  if (made == -EOPNOTSUPP || made == -EISDIR) {
    detail::path_buffer name;
    int const n = detail::begin_random_name(".unio-", name);
    made = detail::with_random_name(name, static_cast<std::size_t>(n), [&](char const* candidate) {
      return detail::open_at(fd, candidate, O_RDWR | O_CREAT | O_EXCL, 0600);
    });
    if (made >= 0) sys::unlinkat(fd, name.text, 0);
  }
  if (made < 0) return made;
  sys::close(made);
  return 0;
}

int open_temporary(char const* path, temporary_storage where) noexcept {
  if (*path != '/') return -EINVAL;
  if (int const r = path_view(path).check(); r != 0) return r;
  // A link in the place of the directory itself may have been put there by anyone. With O_DIRECTORY, ENOTDIR.
  int const fd = detail::open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0) return fd;
  struct statx s;
  auto r = static_cast<int>(sys::statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &s));
  if (r >= 0 && !is_trusted(s)) r = -EACCES;
  if (r >= 0) r = check_storage(fd, where);
  if (r >= 0) r = check_usable(fd);
  if (r >= 0) return fd;
  sys::close(fd);
  return r;
}

} // namespace

result<path_handle> path_handle::temporary(temporary_storage where) noexcept {
  constexpr char const* variables[] = {"TMPDIR", "TMP", "TEMP", "TEMPDIR", "XDG_RUNTIME_DIR"};
  constexpr char const* fixed[] = {"/tmp", "/var/tmp", "/dev/shm"};
  int last = -ENOENT;
  for (char const* const variable : variables)
    if (char const* const path = ::secure_getenv(variable); path != nullptr && *path != 0)
      if (last = open_temporary(path, where); last >= 0) return path_handle(last);
  for (char const* const path : fixed)
    if (last = open_temporary(path, where); last >= 0) return path_handle(last);
  return detail::failed(last, "temporary");
}

} // namespace unio
