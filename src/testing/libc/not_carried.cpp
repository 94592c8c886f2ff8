// Functions that would change the system's files, or read them, where a simulated one is meant; and what is
// asked of a simulated file by its descriptor, and not carried. Refused there, the C library's own elsewhere.

#include "testing/libc/entry.hpp"

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

struct dirent;
struct timeval;
struct utimbuf;

namespace unio::inline v0_1::testing::libc {
namespace {

bool is_ours(char const* path) noexcept { return !simulated_path(AT_FDCWD, path).empty(); }
bool is_ours(int dir, char const* path) noexcept { return !simulated_path(dir, path).empty(); }
bool is_ours(char const* a, char const* b) noexcept { return is_ours(a) || is_ours(b); }
bool is_ours(int dir_a, char const* a, int dir_b, char const* b) noexcept {
  return is_ours(dir_a, a) || is_ours(dir_b, b);
}
bool is_ours(int fd) noexcept { return find_file(fd) != nullptr; }
bool is_ours(int a, int b) noexcept { return is_ours(a) || is_ours(b); }

} // namespace

// The C library's calls functions of the program: not inside of the entry.
#define UNIO_REFUSED_OF(type, failure, name, parameters, what, arguments)           \
  UNIO_IN_PLACE(type, name, parameters) {                                           \
    if (entry const e(#name "()", UNIO_CALLER); e.simulates() && is_ours what) {    \
      (void)refuse(#name "() of a simulated file");                                 \
      errno = ENOSYS;                                                               \
      return failure;                                                               \
    }                                                                               \
    return reinterpret_cast<type(*) parameters>(dlsym(RTLD_NEXT, #name)) arguments; \
  }

UNIO_REFUSED_OF(int, -1, truncate, (char const* path, off_t size), (path), (path, size))
UNIO_REFUSED_OF(int, -1, truncate64, (char const* path, off_t size), (path), (path, size))
UNIO_REFUSED_OF(int, -1, chmod, (char const* path, mode_t mode), (path), (path, mode))
UNIO_REFUSED_OF(int, -1, fchmodat, (int dir, char const* path, mode_t mode, int flags), (dir, path),
                (dir, path, mode, flags))
UNIO_REFUSED_OF(int, -1, chown, (char const* path, uid_t user, gid_t group), (path), (path, user, group))
UNIO_REFUSED_OF(int, -1, lchown, (char const* path, uid_t user, gid_t group), (path), (path, user, group))
UNIO_REFUSED_OF(int, -1, fchownat, (int dir, char const* path, uid_t user, gid_t group, int flags),
                (dir, path), (dir, path, user, group, flags))
UNIO_REFUSED_OF(int, -1, utime, (char const* path, utimbuf const* times), (path), (path, times))
UNIO_REFUSED_OF(int, -1, utimes, (char const* path, timeval const* times), (path), (path, times))
UNIO_REFUSED_OF(int, -1, lutimes, (char const* path, timeval const* times), (path), (path, times))
UNIO_REFUSED_OF(int, -1, utimensat, (int dir, char const* path, timespec const* times, int flags),
                (dir, path), (dir, path, times, flags))
UNIO_REFUSED_OF(int, -1, link, (char const* from, char const* to), (from, to), (from, to))
UNIO_REFUSED_OF(int, -1, linkat, (int from_dir, char const* from, int to_dir, char const* to, int flags),
                (from_dir, from, to_dir, to), (from_dir, from, to_dir, to, flags))
UNIO_REFUSED_OF(int, -1, symlink, (char const* text, char const* path), (path), (text, path))
UNIO_REFUSED_OF(int, -1, symlinkat, (char const* text, int dir, char const* path), (dir, path),
                (text, dir, path))
UNIO_REFUSED_OF(int, -1, mkfifo, (char const* path, mode_t mode), (path), (path, mode))
UNIO_REFUSED_OF(int, -1, mknod, (char const* path, mode_t mode, dev_t d), (path), (path, mode, d))
UNIO_REFUSED_OF(int, -1, mkfifoat, (int dir, char const* path, mode_t mode), (dir, path), (dir, path, mode))
UNIO_REFUSED_OF(int, -1, mknodat, (int dir, char const* path, mode_t mode, dev_t d), (dir, path),
                (dir, path, mode, d))
UNIO_REFUSED_OF(int, -1, setxattr,
                (char const* path, char const* name, void const* v, std::size_t n, int flags), (path),
                (path, name, v, n, flags))
UNIO_REFUSED_OF(int, -1, lsetxattr,
                (char const* path, char const* name, void const* v, std::size_t n, int flags), (path),
                (path, name, v, n, flags))
UNIO_REFUSED_OF(int, -1, removexattr, (char const* path, char const* name), (path), (path, name))
UNIO_REFUSED_OF(int, -1, lremovexattr, (char const* path, char const* name), (path), (path, name))
UNIO_REFUSED_OF(int, -1, mkstemp, (char* path), (path), (path))
UNIO_REFUSED_OF(int, -1, mkstemp64, (char* path), (path), (path))
UNIO_REFUSED_OF(int, -1, mkostemp, (char* path, int flags), (path), (path, flags))
UNIO_REFUSED_OF(int, -1, mkostemp64, (char* path, int flags), (path), (path, flags))
UNIO_REFUSED_OF(int, -1, mkstemps, (char* path, int suffix), (path), (path, suffix))
UNIO_REFUSED_OF(int, -1, mkostemps, (char* path, int suffix, int flags), (path), (path, suffix, flags))
UNIO_REFUSED_OF(char*, nullptr, mkdtemp, (char* path), (path), (path))
UNIO_REFUSED_OF(std::FILE*, nullptr, freopen, (char const* path, char const* mode, std::FILE* f), (path),
                (path, mode, f))
UNIO_REFUSED_OF(std::FILE*, nullptr, freopen64, (char const* path, char const* mode, std::FILE* f), (path),
                (path, mode, f))

using chosen = int(dirent const*);
using compared = int(dirent const**, dirent const**);
UNIO_REFUSED_OF(int, -1, scandir, (char const* path, dirent*** all, chosen* f, compared* g), (path),
                (path, all, f, g))
UNIO_REFUSED_OF(int, -1, scandir64, (char const* path, dirent*** all, chosen* f, compared* g), (path),
                (path, all, f, g))
UNIO_REFUSED_OF(int, -1, ftw, (char const* path, void* f, int n), (path), (path, f, n))
UNIO_REFUSED_OF(int, -1, ftw64, (char const* path, void* f, int n), (path), (path, f, n))
UNIO_REFUSED_OF(int, -1, nftw, (char const* path, void* f, int n, int flags), (path), (path, f, n, flags))
UNIO_REFUSED_OF(int, -1, nftw64, (char const* path, void* f, int n, int flags), (path), (path, f, n, flags))
UNIO_REFUSED_OF(int, -1, glob, (char const* pattern, int flags, void* f, void* found), (pattern),
                (pattern, flags, f, found))
UNIO_REFUSED_OF(int, -1, glob64, (char const* pattern, int flags, void* f, void* found), (pattern),
                (pattern, flags, f, found))

UNIO_REFUSED_OF(int, -1, fchown, (int fd, uid_t user, gid_t group), (fd), (fd, user, group))
UNIO_REFUSED_OF(int, -1, futimens, (int fd, timespec const* times), (fd), (fd, times))
UNIO_REFUSED_OF(int, -1, fallocate, (int fd, int mode, off_t at, off_t n), (fd), (fd, mode, at, n))
UNIO_REFUSED_OF(int, -1, fallocate64, (int fd, int mode, off_t at, off_t n), (fd), (fd, mode, at, n))
UNIO_REFUSED_OF(int, ENOSYS, posix_fallocate, (int fd, off_t at, off_t n), (fd), (fd, at, n))
UNIO_REFUSED_OF(int, ENOSYS, posix_fallocate64, (int fd, off_t at, off_t n), (fd), (fd, at, n))
UNIO_REFUSED_OF(int, -1, lockf, (int fd, int how, off_t n), (fd), (fd, how, n))
UNIO_REFUSED_OF(int, -1, lockf64, (int fd, int how, off_t n), (fd), (fd, how, n))
UNIO_REFUSED_OF(void*, nullptr, fdopendir, (int fd), (fd), (fd))
UNIO_REFUSED_OF(int, -1, fchdir, (int fd), (fd), (fd))
UNIO_REFUSED_OF(int, -1, fstatvfs, (int fd, void* s), (fd), (fd, s))
UNIO_REFUSED_OF(int, -1, fstatvfs64, (int fd, void* s), (fd), (fd, s))
UNIO_REFUSED_OF(int, -1, fstatfs, (int fd, void* s), (fd), (fd, s))
UNIO_REFUSED_OF(int, -1, fstatfs64, (int fd, void* s), (fd), (fd, s))
UNIO_REFUSED_OF(int, -1, syncfs, (int fd), (fd), (fd))
UNIO_REFUSED_OF(ssize_t, -1, readahead, (int fd, off_t at, std::size_t n), (fd), (fd, at, n))
UNIO_REFUSED_OF(int, -1, sync_file_range, (int fd, off_t at, off_t n, unsigned flags), (fd),
                (fd, at, n, flags))

// Not of files alone.
UNIO_REFUSED_OF(ssize_t, -1, splice,
                (int in, off_t* in_at, int out, off_t* out_at, std::size_t n, unsigned flags), (in, out),
                (in, in_at, out, out_at, n, flags))
UNIO_REFUSED_OF(ssize_t, -1, tee, (int in, int out, std::size_t n, unsigned flags), (in, out),
                (in, out, n, flags))
UNIO_REFUSED_OF(ssize_t, -1, vmsplice, (int fd, void const* v, std::size_t n, unsigned flags), (fd),
                (fd, v, n, flags))
// The C library's own threads do it.
UNIO_REFUSED_OF(int, -1, aio_read, (aiocb * a), (a->aio_fildes), (a))
UNIO_REFUSED_OF(int, -1, aio_read64, (aiocb * a), (a->aio_fildes), (a))
UNIO_REFUSED_OF(int, -1, aio_write, (aiocb * a), (a->aio_fildes), (a))
UNIO_REFUSED_OF(int, -1, aio_write64, (aiocb * a), (a->aio_fildes), (a))
#undef UNIO_REFUSED_OF

// Of the system's files: a lock that cannot be had is another thread's, or program's, which has to wait for
// its turn.
UNIO_IN_PLACE(int, flock, (int fd, int how)) {
  entry const e("flock(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_flock, fd, how));
  if (is_ours(fd)) return answer<int>(refuse("flock() of a simulated file"));
  std::int64_t const r = raw(SYS_flock, fd, how | LOCK_NB);
  bool const waits = r == -EWOULDBLOCK && (how & LOCK_NB) == 0;
  return answer<int>(waits ? refuse("flock(2) that waits") : r);
}

// As in a kernel without it, of what is simulated: programs go on with read(2) and write(2).
UNIO_IN_PLACE(ssize_t, copy_file_range,
              (int from, off_t* from_at, int to, off_t* to_at, std::size_t n, unsigned flags)) {
  entry const e("copy_file_range(2)", UNIO_CALLER);
  bool const is_simulated = e.simulates() && (is_ours(from) || is_ours(to));
  return answer<ssize_t>(is_simulated ? -ENOSYS
                                      : raw(SYS_copy_file_range, from, from_at, to, to_at, n, flags));
}

} // namespace unio::testing::libc
