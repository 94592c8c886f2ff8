// Opening lock files safely, open descriptions, forks.

#include "locks/lock_file.hpp"

#include "locks/hooks.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/ofd_lock.hpp"
#include "sys/remote.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace unio::inline v0_1::fs {

// ── opening ────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

bool is_own(struct stat const& s) noexcept { return s.st_uid == ::geteuid() || s.st_uid == 0; }

// An attacker's path is examined before anything is opened for use: an O_PATH descriptor has no side effects.
int check(int path_fd, bool wants_directory, struct stat const* beside, bool trusts_group,
          struct stat& s) noexcept {
  if (auto const r = sys::fstat(path_fd, &s); r < 0) return static_cast<int>(r);
  if (wants_directory && S_ISDIR(s.st_mode)) {
    if ((s.st_mode & S_IWOTH) != 0 && (s.st_mode & S_ISVTX) == 0) return native(error::writable_by_all);
    return is_own(s) ? 0 : -EPERM;
  }
  if (wants_directory) return S_ISLNK(s.st_mode) ? -ELOOP : -ENOTDIR;
  int const e = check_attributes(s);
  bool const is_trusted = e == -EPERM && beside != nullptr &&
                          (s.st_uid == beside->st_uid || (trusts_group && s.st_gid == beside->st_gid));
  return is_trusted ? 0 : e;
}

// Whether members of the group may make the file beside a lock file. In a directory that all may write, the
// group of a file does not show that a member made it: a directory gives its group to new files (S_ISGID).
bool trusts_group(int directory, struct stat const& lock) noexcept {
  struct stat s;
  return (lock.st_mode & S_IWGRP) != 0 && sys::fstat(directory, &s) == 0 && (s.st_mode & S_IWOTH) == 0;
}

// Opens it to the users of the lock file.
void share(int fd, struct stat const& lock, bool is_new) noexcept {
  share_like(fd, lock, lock.st_mode & 0666, is_new);
}

// Opens the inode behind an O_PATH descriptor for use, whatever happened to its name. Without /proc: by its
// name once more, compared afterwards.
int reopen(int path_fd, int flags, int dir, char const* name) noexcept {
  unio::detail::descriptor_path const anew(path_fd);
  int const fd = sys::open_unshared(AT_FDCWD, anew.text, flags, 0);
  if (fd != -ENOENT && fd != -ENOTDIR) return fd;
  int const again = sys::open_unshared(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
  if (again < 0) return again;
  struct stat a;
  struct stat b;
  if (sys::fstat(path_fd, &a) == 0 && sys::fstat(again, &b) == 0 && a.st_dev == b.st_dev &&
      a.st_ino == b.st_ino)
    return again;
  sys::close_unshared(again);
  return native(error::not_a_lock_file);
}

// Copies a part of a path. 0, or ENAMETOOLONG.
template <std::size_t N> int copy(std::string_view part, char (&to)[N]) noexcept {
  if (part.size() >= N) return -ENAMETOOLONG;
  *std::ranges::copy(part, to).out = '\0';
  return 0;
}

} // namespace

bool is_groups(struct stat const& folder) noexcept {
  return (folder.st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP;
}

void share_like(int fd, struct stat const& like, unsigned mode, bool is_new) noexcept {
  uid_t const owner = is_new && ::geteuid() == 0 ? like.st_uid : static_cast<uid_t>(-1);
  bool const has_group = ::fchown(fd, owner, like.st_gid) == 0;
  (void)sys::fchmod(fd, mode & (has_group ? 0666U : 0606U));
}

int check_attributes(struct stat const& s) noexcept {
  if (S_ISLNK(s.st_mode)) return -ELOOP;
  if (S_ISDIR(s.st_mode)) return -EISDIR;
  if (s.st_nlink == 0) return -ENOENT;
  if (!S_ISREG(s.st_mode)) return native(error::not_a_lock_file);
  if (s.st_nlink != 1) return native(error::several_names);
  if ((s.st_mode & S_IWOTH) != 0) return native(error::writable_by_all);
  return is_own(s) ? 0 : -EPERM;
}

int lock_file::open_existing(bool wants_directory, struct stat const* beside, bool is_empty) noexcept {
  auto const found = sys::openat(directory_, name_, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
  if (found < 0) return static_cast<int>(found);
  auto const path_fd = static_cast<int>(found);
  struct stat s;
  int e = check(path_fd, wants_directory, beside, beside != nullptr && trusts_group(directory_, *beside), s);
  if (e == 0) {
    int const flags = wants_directory ? O_RDONLY | O_DIRECTORY : O_RDWR;
    fd_ = reopen(path_fd, flags, directory_, name_);
    e = fd_ < 0 ? fd_ : 0;
  }
  sys::close(path_fd);
  // Its maker may have died before this; and the mode of the lock file may have changed since. What should be
  // empty, and is not, has got its name from who may change the folder, and is not to be shown to them.
  bool const is_shared_otherwise =
      e == 0 && beside != nullptr && s.st_uid == ::geteuid() && (!is_empty || s.st_size == 0) &&
      (s.st_gid != beside->st_gid || (s.st_mode & 07777) != (beside->st_mode & 0666) ||
       (is_empty && s.st_uid != beside->st_uid));
  if (is_shared_otherwise) share(fd_, *beside, is_empty);
  return e;
}

int lock_file::create(struct stat const* beside) noexcept {
  fd_ = sys::open_unshared(directory_, name_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd_ < 0) return fd_;
  if (beside != nullptr) share(fd_, *beside, true);
  return 0;
}

// For the users of `beside`. `made` null: does not create it.
int lock_file::open_or_create(struct stat const& beside, bool* made, bool is_empty) noexcept {
  int e = -EEXIST;
  for (int attempts = 0; e == -EEXIST && attempts != 1000; ++attempts) {
    e = open_existing(false, &beside, is_empty);
    if (e != -ENOENT || made == nullptr) break;
    e = create(&beside);
    *made = e == 0;
  }
  return e == 0 ? opened() : e;
}

int lock_file::open_named(bool wants_directory) noexcept {
  for (int attempts = 0; attempts != 1000; ++attempts) { // it is being created and removed all the time
    int e = open_existing(wants_directory, nullptr);
    if (e != -ENOENT || wants_directory) return e;
    if (e = create(nullptr); e != -EEXIST) return e;
  }
  return -EBUSY;
}

// Fills in the state of an opened file. 0, or a negative errno.
int lock_file::opened() noexcept {
  generation_ = sys::fork_generation();
  struct stat s;
  if (auto const e = sys::fstat(fd_, &s); e < 0) return static_cast<int>(e);
  int const remote = sys::lies_remote(fd_);
  if (remote < 0) return remote;
  device_ = s.st_dev;
  inode_ = s.st_ino;
  is_remote_ = remote == 1;
  // Pages that are read ahead may arrive when what is in them has changed, after refresh() dropped the rest.
  if (is_remote_) (void)sys::fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  return 0;
}

result<lock_file> lock_file::open(path_handle const& base, path_view name, lock_file_wishes w) noexcept {
  if (int const e = name.check(); e != 0) return to_error_code(e);
  std::string_view const whole(name.c_str(), name.size());
  auto [folder, last] = unio::detail::parts_of(whole);
  if (folder.empty()) folder = ".";
  if (last.empty() || last == "." || last == "..") {
    if (!w.directory)
      return std::make_error_code(whole.empty() ? std::errc::no_such_file_or_directory
                                                : std::errc::is_a_directory);
    folder = whole;
    last = ".";
  }
  if (w.beside != nullptr && last.size() + std::strlen(w.beside) + 2 > unio::detail::longest_name)
    return to_error_code(-ENAMETOOLONG);
  lock_file f;
  f.generation_ = sys::fork_generation(); // before opening, so that it does not count as inherited
  unio::detail::path_buffer folder_path;
  if (int const e = copy(last, f.name_); e != 0) return to_error_code(e);
  if (int const e = copy(folder, folder_path.text); e != 0) return to_error_code(e);
  int const anchor = base.is_open() ? base.native_handle() : AT_FDCWD;
  f.directory_ = sys::open_unshared(anchor, folder_path.text, O_PATH | O_DIRECTORY, 0);
  if (f.directory_ < 0) return to_error_code(f.directory_);
  if (!w.may_be_remote && sys::lies_remote(f.directory_) == 1)
    return std::error_code(EOPNOTSUPP, std::system_category());
  if (int const e = f.open_named(w.directory); e != 0) return to_error_code(e);
  if (int const e = f.opened(); e != 0) return to_error_code(e);
  if (f.is_remote_ && !w.may_be_remote) return std::error_code(EOPNOTSUPP, std::system_category());
  return f;
}

result<lock_file> lock_file::open_beside(char const* what, bool* made) const noexcept {
  lock_file f;
  f.generation_ = sys::fork_generation();
  auto const n = std::snprintf(f.name_, sizeof f.name_, ".%s.%s", name_, what);
  if (n < 0 || static_cast<std::size_t>(n) >= sizeof f.name_) return to_error_code(-ENAMETOOLONG);
  struct stat s;
  if (auto const e = sys::fstat(fd_, &s); e < 0) return to_error_code(static_cast<int>(e));
  f.directory_ = sys::open_unshared(directory_, ".", O_PATH | O_DIRECTORY, 0);
  if (f.directory_ < 0) return to_error_code(f.directory_);
  if (int const e = f.open_or_create(s, made, false); e != 0) return to_error_code(e);
  return f;
}

// Not for who may only read the folder: a lock for reading would hold up the others.
result<lock_file> lock_file::open_of_writers(int folder, char const* name) noexcept {
  lock_file f;
  f.generation_ = sys::fork_generation();
  std::strcpy(f.name_, name);
  struct stat s;
  if (auto const e = sys::fstat(folder, &s); e < 0) return to_error_code(static_cast<int>(e));
  f.directory_ = sys::open_unshared(folder, ".", O_PATH | O_DIRECTORY, 0);
  if (f.directory_ < 0) return to_error_code(f.directory_);
  s.st_mode = S_IFREG | (is_groups(s) ? 0660 : 0600);
  bool made = false;
  if (int const e = f.open_or_create(s, &made, true); e != 0) return to_error_code(e);
  return f;
}

int lock_file::remove_name() const noexcept {
  auto const e = sys::unlinkat(directory_, name_, 0);
  return e == -ENOENT ? 0 : static_cast<int>(e);
}

result<lock_file> lock_file::join(path_handle const& base, path_view name, detail::waiting how, bool& alone,
                                  lock_file_wishes w) noexcept {
  for (int attempts = 0; attempts != 100; ++attempts) {
    result<lock_file> f = open(base, name, w);
    if (!f) return f;
    hooks::step("join.opened");
    if (int const e = byte_lock::lock_until(f->fd(), init_byte, lock_kind::exclusive, how); e != 0)
      return to_error_code(e);
    hooks::step("join.has_init_byte");
    // A previous owner on another machine may have made the file, or removed it.
    if (int const e = f->refresh(); e != 0) return to_error_code(e);
    int const named = f->is_still_named();
    if (named < 0) return to_error_code(named);
    if (named == 0) continue; // others will join another file
    int const e = byte_lock::try_lock(f->fd(), in_use_byte, lock_kind::exclusive);
    if (e != 0 && e != -EAGAIN) return to_error_code(e);
    alone = e == 0;
    hooks::step("join.alone_or_not");
    return f;
  }
  return std::error_code(EBUSY, std::system_category());
}

int lock_file::joined() noexcept {
  // Replaces the exclusive lock by a shared one atomically (fcntl_locking(2)).
  if (int const e = byte_lock::lock(fd_, in_use_byte, lock_kind::shared); e != 0) return e;
  hooks::step("join.in_use");
  byte_lock::unlock(fd_, init_byte);
  hooks::step("join.done");
  return 0;
}

lock_file::lock_file(lock_file&& other) noexcept { *this = std::move(other); }

lock_file& lock_file::operator=(lock_file&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  directory_ = std::exchange(other.directory_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  generation_ = other.generation_;
  is_remote_ = other.is_remote_;
  std::ranges::copy(other.name_, name_);
  return *this;
}

bool lock_file::is_inherited() const noexcept { return generation_ != sys::fork_generation(); }

// Stale sizes, removed files, pages that were written elsewhere: FUSE trusts its cache for as long as its
// server said, and a lock does not change that; NFS asks again when a file is opened or locked (nfs(5),
// "Close-to-open cache consistency").
namespace {
// 0; 1: there is no such call; or a negative errno.
int ask_the_server(int fd, struct statx& answer) noexcept {
  auto const r = sys::uninterrupted(
      [&] { return sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &answer); });
  // EPERM: sandboxes that do not know the call
  return r == -ENOSYS || r == -EPERM ? 1 : static_cast<int>(r);
}
} // namespace

int lock_file::refresh(int fd) noexcept {
  struct statx ignored;
  if (int const e = ask_the_server(fd, ignored); e < 0) return e;
  (void)sys::fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return 0;
}

int lock_file::status(int fd, struct stat& s) const noexcept {
  struct statx now;
  int const e = is_remote_ ? ask_the_server(fd, now) : 1;
  if (e < 0) return e;
  if (auto const r = sys::fstat(fd, &s); r < 0 || e == 1) return static_cast<int>(r);
  s.st_mode = now.stx_mode;
  s.st_nlink = now.stx_nlink;
  s.st_uid = now.stx_uid;
  s.st_gid = now.stx_gid;
  s.st_size = static_cast<off_t>(now.stx_size);
  return 0;
}

int lock_file::is_still_named() const noexcept {
  struct stat s;
  if (is_remote_) { // the name may be cached, too
    if (int const e = status(s); e < 0) return e == -ESTALE ? 0 : e;
    if (s.st_nlink == 0) return 0;
    if (int const e = refresh(directory_); e != 0) return e;
  }
  auto const r = sys::fstatat(directory_, name_, &s, AT_SYMLINK_NOFOLLOW);
  if (r == -ENOENT) return 0;
  if (r < 0) return static_cast<int>(r);
  return s.st_dev == device_ && s.st_ino == inode_ ? 1 : 0;
}

result<int> lock_file::open_description(int more_flags) const noexcept {
  int const fd = reopen(fd_, O_RDWR | more_flags, directory_, name_);
  if (fd < 0) return to_error_code(fd);
  return fd;
}

// In a child of fork they are closed already, and the numbers may belong to others.
void lock_file::close() noexcept {
  int const fds[] = {std::exchange(fd_, -1), std::exchange(directory_, -1)};
  if (is_inherited()) return;
  // A FUSE server that only knows POSIX locks would keep them.
  if (is_remote_ && fds[0] >= 0) byte_lock::unlock_all(fds[0]);
  for (int const fd : fds) sys::close_unshared(fd);
}

// ── descriptions ───────────────────────────────────────────────────────────────────────────────────────────

int descriptions::take(lock_file const& of) noexcept {
  {
    std::lock_guard const alone(mutex_);
    if (count_ != 0) return free_[--count_];
  }
  result<int> const fd = of.open_description();
  return fd ? *fd : to_native(fd.error());
}

void descriptions::give_back(int fd) noexcept {
  {
    std::lock_guard const alone(mutex_);
    if (count_ == room_) {
      std::size_t const room = std::max<std::size_t>(2 * room_, 8);
      if (std::unique_ptr<int[]> more(new (std::nothrow) int[room]); more != nullptr) {
        std::copy_n(free_.get(), count_, more.get());
        free_ = std::move(more);
        room_ = room;
      }
    }
    if (count_ != room_) {
      free_[count_++] = fd;
      return;
    }
  }
  sys::close_unshared(fd);
}

void descriptions::close(bool inherited) noexcept {
  for (; count_ != 0; --count_)
    if (!inherited) sys::close_unshared(free_[count_ - 1]);
}

} // namespace unio::fs
