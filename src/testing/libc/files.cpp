// Files below the directories that are simulated, and what is asked of a file by its descriptor.

#include "testing/libc/transfer.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace unio::inline v0_1::testing::libc {
namespace {

std::vector<std::string>& directories() noexcept {
  static auto* const all = new std::vector<std::string>;
  return *all;
}

// Without "." and "..", from the root.
std::string normal(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    std::size_t const end = std::min(path.find('/'), path.size());
    std::string_view const part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  }
  std::string whole;
  for (std::string_view const part : parts) whole.append("/").append(part);
  return whole.empty() ? "/" : whole;
}

constexpr char const* opening_pipe = "opening a pipe that has a name";

std::int64_t open_file_at(std::string const& path, int flags, unsigned mode) noexcept {
  std::int64_t const r = sys::openat(AT_FDCWD, path.c_str(), flags, mode);
  return add_descriptor(r, (flags & O_CLOEXEC) != 0, (flags & O_NONBLOCK) != 0);
}

// Whether opening the system's file would wait for another one to open it.
bool is_waiting_pipe(int dir, char const* path, int flags) noexcept {
  struct stat s{};
  return (flags & (O_NONBLOCK | O_PATH)) == 0 && (flags & O_ACCMODE) != O_RDWR &&
         raw(SYS_newfstatat, dir, path, &s, 0) == 0 && S_ISFIFO(s.st_mode);
}

std::int64_t open_any(int dir, char const* path, int flags, unsigned mode) noexcept {
  if (std::string const ours = simulated_path(dir, path); !ours.empty())
    return open_file_at(ours, flags, mode);
  if (is_waiting_pipe(dir, path, flags)) return refuse(opening_pipe);
  return raw(SYS_openat, dir, path, flags, mode);
}

unsigned mode_of(int flags, va_list list) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, unsigned) : 0;
}

std::int64_t stat_any(int dir, char const* path, struct stat* s, int flags) noexcept {
  if (*path == 0 && (flags & AT_EMPTY_PATH) != 0)
    if (file_pointer const f = find_file(dir); f != nullptr)
      return f->in_world >= 0 ? sys::fstat(f->in_world, s) : -EINVAL;
  if (std::string const ours = simulated_path(dir, path); !ours.empty())
    return sys::fstatat(AT_FDCWD, ours.c_str(), s, flags & ~AT_NO_AUTOMOUNT);
  return raw(SYS_newfstatat, dir, path, s, flags);
}

// Of what is simulated: what stat(2) says.
std::int64_t statx_any(int dir, char const* path, int flags, unsigned mask, struct statx* to) noexcept {
  bool const is_simulated = find_file(dir) != nullptr || !simulated_path(dir, path).empty();
  if (!is_simulated) return raw(SYS_statx, dir, path, flags, mask, to);
  struct stat s{};
  constexpr int known = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
  if (std::int64_t const r = stat_any(dir, path, &s, flags & known); r < 0) return r;
  auto const set = [](statx_timestamp& time, timespec const& t) {
    time.tv_sec = t.tv_sec;
    time.tv_nsec = static_cast<std::uint32_t>(t.tv_nsec);
  };
  *to = {};
  to->stx_mask = STATX_BASIC_STATS;
  to->stx_blksize = static_cast<std::uint32_t>(s.st_blksize);
  to->stx_nlink = static_cast<std::uint32_t>(s.st_nlink);
  to->stx_uid = s.st_uid;
  to->stx_gid = s.st_gid;
  to->stx_mode = static_cast<std::uint16_t>(s.st_mode);
  to->stx_ino = s.st_ino;
  to->stx_size = static_cast<std::uint64_t>(s.st_size);
  to->stx_blocks = static_cast<std::uint64_t>(s.st_blocks);
  set(to->stx_atime, s.st_atim);
  set(to->stx_mtime, s.st_mtim);
  set(to->stx_ctime, s.st_ctim);
  to->stx_dev_major = major(s.st_dev);
  to->stx_dev_minor = minor(s.st_dev);
  return 0;
}

std::int64_t rename_any(int from_dir, char const* from, int to_dir, char const* to, unsigned flags) noexcept {
  std::string const a = simulated_path(from_dir, from), b = simulated_path(to_dir, to);
  if (a.empty() && b.empty()) return raw(SYS_renameat2, from_dir, from, to_dir, to, flags);
  if (a.empty() || b.empty()) return -EXDEV;
  return sys::renameat(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), flags);
}

std::int64_t unlink_any(int dir, char const* path, int flags) noexcept {
  if (std::string const ours = simulated_path(dir, path); !ours.empty())
    return sys::unlinkat(AT_FDCWD, ours.c_str(), flags);
  return raw(SYS_unlinkat, dir, path, flags);
}

std::int64_t access_any(int dir, char const* path, int mode, int flags) noexcept {
  std::string const ours = simulated_path(dir, path);
  if (ours.empty())
    return flags != 0 ? raw(SYS_faccessat2, dir, path, mode, flags) : raw(SYS_faccessat, dir, path, mode);
  struct stat s;
  std::int64_t const r = sys::fstatat(AT_FDCWD, ours.c_str(), &s, 0);
  if (r < 0) return r;
  return (mode & X_OK) != 0 && S_ISREG(s.st_mode) && (s.st_mode & 0111) == 0 ? -EACCES : 0;
}

// ---- streams of stdio

std::map<std::FILE*, int>& streams() noexcept {
  static auto* const all = new std::map<std::FILE*, int>;
  return *all;
}

int flags_of(char const* mode) noexcept {
  bool const both = std::strchr(mode, '+') != nullptr;
  int flags = std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  if (std::strchr(mode, 'x') != nullptr) flags |= O_EXCL;
  switch (*mode) {
    case 'r':
      return flags | (both ? O_RDWR : O_RDONLY);
    case 'w':
      return flags | O_CREAT | O_TRUNC | (both ? O_RDWR : O_WRONLY);
    case 'a':
      return flags | O_CREAT | O_APPEND | (both ? O_RDWR : O_WRONLY);
    default:
      return -1;
  }
}

struct cookie {
  int fd;
  std::FILE* stream;
};

std::FILE* make_stream(int fd, char const* mode) noexcept {
  auto* const c = new cookie{fd, nullptr};
  // They run under the stream's lock, for which another thread would wait in the kernel.
  cookie_io_functions_t const io{.read =
                                     [](void* p, char* to, std::size_t n) {
                                       holding const its_lock;
                                       return ::read(static_cast<cookie*>(p)->fd, to, n);
                                     },
                                 .write =
                                     [](void* p, char const* from, std::size_t n) {
                                       holding const its_lock;
                                       std::size_t done = 0; // a stream of a file's goes on
                                       while (done != n) {
                                         ssize_t const r =
                                             ::write(static_cast<cookie*>(p)->fd, from + done, n - done);
                                         if (r <= 0) break;
                                         done += static_cast<std::size_t>(r);
                                       }
                                       return static_cast<ssize_t>(done);
                                     },
                                 .seek =
                                     [](void* p, off64_t* at, int whence) {
                                       holding const its_lock;
                                       off_t const r = ::lseek(static_cast<cookie*>(p)->fd, *at, whence);
                                       if (r >= 0) *at = r;
                                       return r >= 0 ? 0 : -1;
                                     },
                                 .close =
                                     [](void* p) {
                                       holding const its_lock;
                                       auto* const closed = static_cast<cookie*>(p);
                                       int const r = ::close(closed->fd);
                                       streams().erase(closed->stream);
                                       delete closed;
                                       return r;
                                     }};
  std::FILE* const f = ::fopencookie(c, mode, io);
  if (f == nullptr) {
    delete c;
    return nullptr;
  }
  c->stream = f;
  streams()[f] = fd;
  return f;
}

} // namespace

void simulate_directory(std::string path) {
  std::string const whole = normal(path);
  directories().push_back(whole);
  (void)answering_world()->directory(whole);
}

void lend_directory_of(std::string_view path) {
  std::string const in = normal(path.substr(0, std::min(path.rfind('/'), path.size())));
  std::string const real = path.starts_with('/') ? in : "." + in;
  struct stat s{};
  if (path.find('/') != path.npos && raw(SYS_newfstatat, AT_FDCWD, real.c_str(), &s, 0) == 0 &&
      S_ISDIR(s.st_mode))
    (void)answering_world()->directory(in);
}

namespace {

// The devices of which the seed draws the bytes: from the first time on that one is named, a file of the
// world.
bool is_random_device(char const* path) {
  std::string_view const device(path), in = "/dev/";
  if (device != "/dev/random" && device != "/dev/urandom") return false;
  world& w = *answering_world();
  if (world::place p; w.locate(AT_FDCWD, path, p) < 0 || p.node == nullptr) {
    auto const made = w.make_node(node_kind::file, 0666);
    made->file->is_random = true;
    world::put(w.directory(in), std::string(device.substr(in.size())), made);
  }
  return true;
}

} // namespace

std::string simulated_path(int dir, char const* path) {
  if (path == nullptr || *path == 0) return {};
  if (is_random_device(path)) return path;
  if ((dir == AT_FDCWD || *path == '/') && answering_world()->is_socket(path)) return path;
  if (directories().empty()) return {};
  std::string whole;
  if (*path == '/') {
    whole = normal(path);
  } else {
    char base[PATH_MAX];
    file_pointer const f = dir != AT_FDCWD ? find_file(dir) : nullptr;
    std::int64_t n = 0;
    if (f != nullptr) {
      std::string const link = "/proc/self/fd/" + std::to_string(f->in_world);
      n = sys::readlinkat(AT_FDCWD, link.c_str(), base, sizeof base);
    } else {
      std::string const link = dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(dir);
      n = raw(SYS_readlinkat, AT_FDCWD, link.c_str(), base, sizeof base);
    }
    if (n < 0) return {};
    whole = normal(std::string(base, static_cast<std::size_t>(n)) + "/" + path);
  }
  bool const wants_directory = std::string_view(path).ends_with('/') && whole != "/";
  for (std::string const& d : directories())
    if (whole == d || (whole.starts_with(d) && (d == "/" || whole[d.size()] == '/')))
      return wants_directory ? whole + '/' : whole;
  return {};
}

// ---- what takes the place of the C library's

UNIO_IN_PLACE(int, openat, (int dir, char const* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  unsigned const mode = mode_of(flags, list);
  va_end(list);
  entry const e("openat(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_openat, dir, path, flags, mode));
  return answer<int>(open_any(dir, path, flags, mode));
}
UNIO_IN_PLACE(int, open, (char const* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  unsigned const mode = mode_of(flags, list);
  va_end(list);
  entry const e("open(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_openat, AT_FDCWD, path, flags, mode));
  return answer<int>(open_any(AT_FDCWD, path, flags, mode));
}
UNIO_IN_PLACE(int, open64, (char const* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  unsigned const mode = mode_of(flags, list);
  va_end(list);
  return in_place_of_open(path, flags, mode);
}
UNIO_IN_PLACE(int, openat64, (int dir, char const* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  unsigned const mode = mode_of(flags, list);
  va_end(list);
  return in_place_of_openat(dir, path, flags, mode);
}
UNIO_ALSO(int, __open_2, (char const* path, int flags), open, (path, flags))
UNIO_ALSO(int, __open64_2, (char const* path, int flags), open, (path, flags))
UNIO_ALSO(int, __openat_2, (int dir, char const* path, int flags), openat, (dir, path, flags))
UNIO_ALSO(int, __openat64_2, (int dir, char const* path, int flags), openat, (dir, path, flags))
UNIO_ALSO(int, creat, (char const* path, unsigned mode), open, (path, O_CREAT | O_WRONLY | O_TRUNC, mode))
UNIO_ALSO(int, creat64, (char const* path, unsigned mode), open, (path, O_CREAT | O_WRONLY | O_TRUNC, mode))

UNIO_IN_PLACE(int, fstat, (int fd, struct stat* s)) {
  entry const e("fstat(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_fstat, fd, s));
  if (f->in_world >= 0) return answer<int>(sys::fstat(f->in_world, s));
  *s = {};
  return 0;
}
UNIO_IN_PLACE(int, fstatat, (int dir, char const* path, struct stat* s, int flags)) {
  entry const e("fstatat(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? stat_any(dir, path, s, flags)
                                   : raw(SYS_newfstatat, dir, path, s, flags));
}
UNIO_IN_PLACE(int, stat, (char const* path, struct stat* s)) {
  entry const e("stat(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? stat_any(AT_FDCWD, path, s, 0)
                                   : raw(SYS_newfstatat, AT_FDCWD, path, s, 0));
}
UNIO_IN_PLACE(int, lstat, (char const* path, struct stat* s)) {
  entry const e("lstat(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? stat_any(AT_FDCWD, path, s, AT_SYMLINK_NOFOLLOW)
                                   : raw(SYS_newfstatat, AT_FDCWD, path, s, AT_SYMLINK_NOFOLLOW));
}
UNIO_IN_PLACE(int, statx, (int dir, char const* path, int flags, unsigned mask, struct statx* s)) {
  entry const e("statx(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? statx_any(dir, path, flags, mask, s)
                                   : raw(SYS_statx, dir, path, flags, mask, s));
}
UNIO_ALSO(int, fstat64, (int fd, struct stat* s), fstat, (fd, s))
UNIO_ALSO(int, stat64, (char const* path, struct stat* s), stat, (path, s))
UNIO_ALSO(int, lstat64, (char const* path, struct stat* s), lstat, (path, s))
UNIO_ALSO(int, fstatat64, (int dir, char const* path, struct stat* s, int flags), fstatat,
          (dir, path, s, flags))
// Their names in programs that were linked with a C library before 2.33.
UNIO_ALSO(int, __fxstat, (int, int fd, struct stat* s), fstat, (fd, s))
UNIO_ALSO(int, __xstat, (int, char const* path, struct stat* s), stat, (path, s))
UNIO_ALSO(int, __lxstat, (int, char const* path, struct stat* s), lstat, (path, s))
UNIO_ALSO(int, __fxstatat, (int, int dir, char const* path, struct stat* s, int flags), fstatat,
          (dir, path, s, flags))
UNIO_ALSO(int, __fxstat64, (int, int fd, struct stat* s), fstat, (fd, s))
UNIO_ALSO(int, __xstat64, (int, char const* path, struct stat* s), stat, (path, s))
UNIO_ALSO(int, __lxstat64, (int, char const* path, struct stat* s), lstat, (path, s))
UNIO_ALSO(int, __fxstatat64, (int, int dir, char const* path, struct stat* s, int flags), fstatat,
          (dir, path, s, flags))

UNIO_IN_PLACE(int, faccessat, (int dir, char const* path, int mode, int flags)) {
  entry const e("faccessat(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_faccessat2, dir, path, mode, flags));
  return answer<int>(access_any(dir, path, mode, flags));
}
UNIO_ALSO(int, access, (char const* path, int mode), faccessat, (AT_FDCWD, path, mode, 0))
UNIO_ALSO(int, eaccess, (char const* path, int mode), faccessat, (AT_FDCWD, path, mode, AT_EACCESS))
UNIO_ALSO(int, euidaccess, (char const* path, int mode), faccessat, (AT_FDCWD, path, mode, AT_EACCESS))

UNIO_IN_PLACE(ssize_t, readlinkat, (int dir, char const* path, char* out, std::size_t n)) {
  entry const e("readlinkat(2)", UNIO_CALLER);
  std::string const ours = e.simulates() ? simulated_path(dir, path) : std::string();
  return answer(ours.empty() ? raw(SYS_readlinkat, dir, path, out, n)
                             : sys::readlinkat(AT_FDCWD, ours.c_str(), out, n));
}
UNIO_ALSO(ssize_t, readlink, (char const* path, char* out, std::size_t n), readlinkat,
          (AT_FDCWD, path, out, n))
UNIO_ALSO(ssize_t, __readlink_chk, (char const* path, char* out, std::size_t n, std::size_t), readlink,
          (path, out, n))

// The working directory is the system's.
UNIO_IN_PLACE(int, chdir, (char const* path)) {
  entry const e("chdir(2)", UNIO_CALLER);
  std::string const ours = e.simulates() ? simulated_path(AT_FDCWD, path) : std::string();
  std::int64_t const r = raw(SYS_chdir, path);
  if (r < 0 && !ours.empty()) return answer<int>(refuse("chdir(2) to a directory that the system has not"));
  return answer<int>(r);
}

UNIO_IN_PLACE(int, unlinkat, (int dir, char const* path, int flags)) {
  entry const e("unlinkat(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? unlink_any(dir, path, flags) : raw(SYS_unlinkat, dir, path, flags));
}
UNIO_ALSO(int, unlink, (char const* path), unlinkat, (AT_FDCWD, path, 0))
UNIO_ALSO(int, rmdir, (char const* path), unlinkat, (AT_FDCWD, path, AT_REMOVEDIR))
UNIO_IN_PLACE(int, remove, (char const* path)) {
  int const r = in_place_of_unlinkat(AT_FDCWD, path, 0);
  return r < 0 && (errno == EISDIR || errno == EPERM) ? in_place_of_unlinkat(AT_FDCWD, path, AT_REMOVEDIR)
                                                      : r;
}

UNIO_IN_PLACE(int, renameat2, (int from_dir, char const* from, int to_dir, char const* to, unsigned flags)) {
  entry const e("renameat2(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_renameat2, from_dir, from, to_dir, to, flags));
  return answer<int>(rename_any(from_dir, from, to_dir, to, flags));
}
UNIO_ALSO(int, renameat, (int from_dir, char const* from, int to_dir, char const* to), renameat2,
          (from_dir, from, to_dir, to, 0))
UNIO_ALSO(int, rename, (char const* from, char const* to), renameat2, (AT_FDCWD, from, AT_FDCWD, to, 0))

UNIO_IN_PLACE(int, mkdirat, (int dir, char const* path, unsigned mode)) {
  entry const e("mkdirat(2)", UNIO_CALLER);
  std::string const ours = e.simulates() ? simulated_path(dir, path) : std::string();
  if (ours.empty()) return answer<int>(raw(SYS_mkdirat, dir, path, mode));
  return answer<int>(sys::mkdirat(AT_FDCWD, ours.c_str(), mode));
}
UNIO_ALSO(int, mkdir, (char const* path, unsigned mode), mkdirat, (AT_FDCWD, path, mode))

UNIO_IN_PLACE(off_t, lseek, (int fd, off_t at, int whence)) {
  entry const e("lseek(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<off_t>(raw(SYS_lseek, fd, at, whence));
  return answer<off_t>(f->in_world < 0 ? -ESPIPE : sys::lseek(f->in_world, at, whence));
}
UNIO_ALSO(off_t, lseek64, (int fd, off_t at, int whence), lseek, (fd, at, whence))

UNIO_IN_PLACE(int, ftruncate, (int fd, off_t size)) {
  entry const e("ftruncate(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_ftruncate, fd, size));
  return answer<int>(f->in_world < 0 ? -EINVAL : sys::ftruncate(f->in_world, size));
}
UNIO_ALSO(int, ftruncate64, (int fd, off_t size), ftruncate, (fd, size))

UNIO_IN_PLACE(int, fsync, (int fd)) {
  entry const e("fsync(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_fsync, fd));
  return answer<int>(f->in_world < 0 ? -EINVAL : sys::fsync(f->in_world));
}
UNIO_IN_PLACE(int, fdatasync, (int fd)) {
  entry const e("fdatasync(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_fdatasync, fd));
  return answer<int>(f->in_world < 0 ? -EINVAL : sys::fdatasync(f->in_world));
}

UNIO_IN_PLACE(int, posix_fadvise, (int fd, off_t at, off_t n, int advice)) { // which returns its error
  entry const e("posix_fadvise(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return static_cast<int>(-raw(SYS_fadvise64, fd, at, n, advice));
  return f->in_world < 0 || sys::lseek(f->in_world, 0, SEEK_CUR) < 0 ? ESPIPE : 0;
}
UNIO_ALSO(int, posix_fadvise64, (int fd, off_t at, off_t n, int advice), posix_fadvise, (fd, at, n, advice))

UNIO_IN_PLACE(int, fchmod, (int fd, mode_t mode)) {
  entry const e("fchmod(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_fchmod, fd, mode));
  return answer<int>(f->in_world < 0 ? -EINVAL : sys::fchmod(f->in_world, mode));
}

// There are no links: what a path names is its place.
UNIO_IN_PLACE(char*, realpath, (char const* path, char* out)) {
  entry const e("realpath(3)", UNIO_CALLER);
  std::string const ours = e.simulates() ? simulated_path(AT_FDCWD, path) : std::string();
  if (ours.empty()) // of two versions the one that may allocate
    return reinterpret_cast<char* (*)(char const*, char*)>(dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3"))(path,
                                                                                                       out);
  struct stat s{};
  if (answer(sys::fstatat(AT_FDCWD, ours.c_str(), &s, 0)) < 0) return nullptr;
  return out != nullptr ? std::strcpy(out, ours.c_str()) : ::strdup(ours.c_str());
}
UNIO_ALSO(char*, __realpath_chk, (char const* path, char* out, std::size_t), realpath, (path, out))
UNIO_ALSO(char*, canonicalize_file_name, (char const* path), realpath, (path, nullptr))

UNIO_IN_PLACE(void*, mmap, (void* at, std::size_t n, int protection, int flags, int fd, off_t offset)) {
  entry const e("mmap(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  std::int64_t const r = f == nullptr ? raw(SYS_mmap, at, n, protection, flags, fd, offset)
                                      : refuse("mmap(2) of a simulated descriptor");
  return reinterpret_cast<void*>(answer(r));
}
UNIO_ALSO(void*, mmap64, (void* at, std::size_t n, int protection, int flags, int fd, off_t offset), mmap,
          (at, n, protection, flags, fd, offset))

UNIO_IN_PLACE(std::FILE*, fopen, (char const* path, char const* mode)) {
  entry const e("fopen(3)", UNIO_CALLER);
  std::string const ours = e.simulates() ? simulated_path(AT_FDCWD, path) : std::string();
  int const flags = flags_of(mode);
  if (ours.empty() && e.simulates() && is_waiting_pipe(AT_FDCWD, path, flags)) (void)refuse(opening_pipe);
  if (ours.empty()) return own<std::FILE*(char const*, char const*)>("fopen")(path, mode);
  auto const fd = answer<int>(flags < 0 ? -EINVAL : open_file_at(ours, flags, 0666));
  if (fd >= 0 && *mode == 'a' && (flags & O_ACCMODE) == O_WRONLY) // ftell(3) says so
    (void)sys::lseek(find_file(fd)->in_world, 0, SEEK_END);
  return fd >= 0 ? make_stream(fd, mode) : nullptr;
}
UNIO_ALSO(std::FILE*, fopen64, (char const* path, char const* mode), fopen, (path, mode))

UNIO_IN_PLACE(std::FILE*, fdopen, (int fd, char const* mode)) {
  entry const e("fdopen(3)", UNIO_CALLER);
  if (e.file(fd) == nullptr) return own<std::FILE*(int, char const*)>("fdopen")(fd, mode);
  return make_stream(fd, mode);
}
UNIO_IN_PLACE(int, fileno, (std::FILE * f)) {
  entry const e("fileno(3)", UNIO_CALLER);
  if (e.simulates())
    if (auto const known = streams().find(f); known != streams().end()) return known->second;
  return own<int(std::FILE*)>("fileno")(f);
}
UNIO_ALSO(int, fileno_unlocked, (std::FILE * f), fileno, (f))

UNIO_IN_PLACE(void*, opendir, (char const* path)) {
  entry const e("opendir(3)", UNIO_CALLER);
  if (e.simulates() && !simulated_path(AT_FDCWD, path).empty()) {
    (void)refuse("opendir(3) of a simulated directory");
    errno = ENOSYS;
    return nullptr;
  }
  return own<void*(char const*)>("opendir")(path);
}

} // namespace unio::testing::libc
