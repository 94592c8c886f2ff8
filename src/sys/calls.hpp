// src/sys/calls.hpp: the one table of system calls.
//
// All system calls of unio at run time go through here, so that tests can fail the n-th call with any errno
// and the simulation can answer for descriptors of its own. Each entry returns what the call returned, or
// -errno: errno itself is never read above this file.

#pragma once

#include "sys/kernel_call.hpp"

#include <unio/config.hpp>

#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>

struct epoll_event;
struct io_uring_params;
struct iocb;
struct iovec;
struct mmsghdr;
struct msghdr;
struct open_how;
struct pollfd;
struct sockaddr;
struct statfs;
struct statx;
struct timespec;

namespace unio::inline v0_1::sys {

struct waited_word;

// X(name, (parameters), (arguments))
//
// Of ask_libc: 0 if the C library may look up names, which makes system calls of its own, or why not.
#define UNIO_SYSTEM_CALLS(X)                                                                                 \
  X(openat, (int dir, char const* path, int flags, unsigned mode), (dir, path, flags, mode))                 \
  X(close, (int fd), (fd))                                                                                   \
  X(read, (int fd, void* data, std::size_t n), (fd, data, n))                                                \
  X(write, (int fd, void const* data, std::size_t n), (fd, data, n))                                         \
  X(readv, (int fd, iovec const* v, int n), (fd, v, n))                                                      \
  X(writev, (int fd, iovec const* v, int n), (fd, v, n))                                                     \
  X(preadv2, (int fd, iovec const* v, int n, std::int64_t at, int flags), (fd, v, n, at, flags))             \
  X(pwritev2, (int fd, iovec const* v, int n, std::int64_t at, int flags), (fd, v, n, at, flags))            \
  X(recv, (int fd, void* data, std::size_t n, int flags), (fd, data, n, flags))                              \
  X(send, (int fd, void const* data, std::size_t n, int flags), (fd, data, n, flags))                        \
  X(recvmsg, (int fd, msghdr* m, int flags), (fd, m, flags))                                                 \
  X(sendmsg, (int fd, msghdr const* m, int flags), (fd, m, flags))                                           \
  X(recvmmsg, (int fd, mmsghdr* m, unsigned n, int flags), (fd, m, n, flags))                                \
  X(sendmmsg, (int fd, mmsghdr* m, unsigned n, int flags), (fd, m, n, flags))                                \
  X(splice, (int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n, unsigned flags),     \
    (in, in_at, out, out_at, n, flags))                                                                      \
  X(vmsplice, (int pipe, iovec const* v, int n, unsigned flags), (pipe, v, n, flags))                        \
  X(fsync, (int fd), (fd))                                                                                   \
  X(fdatasync, (int fd), (fd))                                                                               \
  X(sync_file_range, (int fd, std::int64_t at, std::int64_t n, unsigned flags), (fd, at, n, flags))          \
  X(accept4, (int fd, sockaddr* a, unsigned* size, int flags), (fd, a, size, flags))                         \
  X(connect, (int fd, sockaddr const* a, unsigned size), (fd, a, size))                                      \
  X(socket, (int family, int type, int protocol), (family, type, protocol))                                  \
  X(socketpair, (int family, int type, int protocol, int* fds), (family, type, protocol, fds))               \
  X(bind, (int fd, sockaddr const* a, unsigned size), (fd, a, size))                                         \
  X(listen, (int fd, int backlog), (fd, backlog))                                                            \
  X(shutdown, (int fd, int how), (fd, how))                                                                  \
  X(getsockname, (int fd, sockaddr* a, unsigned* size), (fd, a, size))                                       \
  X(getpeername, (int fd, sockaddr* a, unsigned* size), (fd, a, size))                                       \
  X(getsockopt, (int fd, int level, int name, void* v, unsigned* size), (fd, level, name, v, size))          \
  X(setsockopt, (int fd, int level, int name, void const* v, unsigned size), (fd, level, name, v, size))     \
  X(poll, (pollfd * fds, unsigned n, timespec const* timeout), (fds, n, timeout))                            \
  X(epoll_create, (int flags), (flags))                                                                      \
  X(epoll_ctl, (int epoll, int op, int fd, epoll_event* e), (epoll, op, fd, e))                              \
  X(epoll_wait, (int epoll, epoll_event* e, int n, timespec const* timeout), (epoll, e, n, timeout))         \
  X(eventfd, (unsigned initial, int flags), (initial, flags))                                                \
  X(pipe, (int* fds, int flags), (fds, flags))                                                               \
  X(mkfifo, (int dir, char const* path, unsigned mode), (dir, path, mode))                                   \
  X(fcntl, (int fd, int command, long argument), (fd, command, argument))                                    \
  X(fstat, (int fd, struct stat* s), (fd, s))                                                                \
  X(ftruncate, (int fd, std::int64_t size), (fd, size))                                                      \
  X(fallocate, (int fd, int mode, std::int64_t at, std::int64_t n), (fd, mode, at, n))                       \
  X(unlinkat, (int dir, char const* path, int flags), (dir, path, flags))                                    \
  X(renameat, (int from_dir, char const* from, int to_dir, char const* to, unsigned flags),                  \
    (from_dir, from, to_dir, to, flags))                                                                     \
  X(readlinkat, (int dir, char const* path, char* out, std::size_t n), (dir, path, out, n))                  \
  X(getrandom, (void* data, std::size_t n, unsigned flags), (data, n, flags))                                \
  X(sched_yield, (), ())                                                                                     \
  X(io_uring_setup, (unsigned entries, io_uring_params* p), (entries, p))                                    \
  X(io_uring_enter,                                                                                          \
    (int fd, unsigned n, unsigned min, unsigned flags, void const* argument, std::size_t size),              \
    (fd, n, min, flags, argument, size))                                                                     \
  X(io_uring_register, (int fd, unsigned opcode, void* argument, unsigned n), (fd, opcode, argument, n))     \
  X(io_setup, (unsigned entries, unsigned long* context), (entries, context))                                \
  X(io_submit, (unsigned long context, long n, iocb** entries), (context, n, entries))                       \
  X(io_destroy, (unsigned long context), (context))                                                          \
  X(steady_now, (), ())                                                                                      \
  X(system_now, (), ())                                                                                      \
  X(ask_libc, (), ())                                                                                        \
  X(fstatat, (int dir, char const* path, struct stat* s, int flags), (dir, path, s, flags))                  \
  X(fstatfs, (int fd, struct statfs* s), (fd, s))                                                            \
  X(statx, (int dir, char const* path, int flags, unsigned mask, struct statx* s),                           \
    (dir, path, flags, mask, s))                                                                             \
  X(fadvise, (int fd, std::int64_t at, std::int64_t n, int advice), (fd, at, n, advice))                     \
  X(fchmod, (int fd, unsigned mode), (fd, mode))                                                             \
  X(lseek, (int fd, std::int64_t at, int whence), (fd, at, whence))                                          \
  X(mmap, (void* at, std::size_t n, int protection, int flags, int fd, std::int64_t offset),                 \
    (at, n, protection, flags, fd, offset))                                                                  \
  X(munmap, (void* at, std::size_t n), (at, n))                                                              \
  X(futex, (std::uint32_t* word, int operation, std::uint32_t value, timespec const* timeout),               \
    (word, operation, value, timeout))                                                                       \
  X(futex_waitv, (waited_word * words, unsigned n), (words, n))                                              \
  X(openat2, (int dir, char const* path, open_how const* how, std::size_t size), (dir, path, how, size))     \
  X(getdents64, (int fd, void* entries, std::size_t n), (fd, entries, n))                                    \
  X(mkdirat, (int dir, char const* path, unsigned mode), (dir, path, mode))                                  \
  X(mknodat, (int dir, char const* path, unsigned mode, unsigned device), (dir, path, mode, device))         \
  X(symlinkat, (char const* target, int dir, char const* path), (target, dir, path))                         \
  X(linkat, (int from_dir, char const* from, int to_dir, char const* to, int flags),                         \
    (from_dir, from, to_dir, to, flags))                                                                     \
  X(fchmodat2, (int dir, char const* path, unsigned mode, int flags), (dir, path, mode, flags))              \
  X(fchownat, (int dir, char const* path, unsigned owner, unsigned group, int flags),                        \
    (dir, path, owner, group, flags))                                                                        \
  X(utimensat, (int dir, char const* path, timespec const* times, int flags), (dir, path, times, flags))     \
  X(getxattr, (char const* path, char const* name, void* v, std::size_t n), (path, name, v, n))              \
  X(setxattr, (char const* path, char const* name, void const* v, std::size_t n, int flags),                 \
    (path, name, v, n, flags))                                                                               \
  X(listxattr, (char const* path, char* names, std::size_t n), (path, names, n))                             \
  X(removexattr, (char const* path, char const* name), (path, name))                                         \
  X(fgetxattr, (int fd, char const* name, void* v, std::size_t n), (fd, name, v, n))                         \
  X(fsetxattr, (int fd, char const* name, void const* v, std::size_t n, int flags), (fd, name, v, n, flags)) \
  X(flistxattr, (int fd, char* names, std::size_t n), (fd, names, n))                                        \
  X(fremovexattr, (int fd, char const* name), (fd, name))                                                    \
  X(copy_file_range,                                                                                         \
    (int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n, unsigned flags),             \
    (in, in_at, out, out_at, n, flags))                                                                      \
  X(ioctl, (int fd, unsigned long request, void* argument), (fd, request, argument))                         \
  X(syncfs, (int fd), (fd))                                                                                  \
  X(tee, (int in, int out, std::size_t n, unsigned flags), (in, out, n, flags))                              \
  X(madvise, (void* at, std::size_t n, int advice), (at, n, advice))                                         \
  X(msync, (void* at, std::size_t n, int flags), (at, n, flags))                                             \
  X(mprotect, (void* at, std::size_t n, int protection), (at, n, protection))                                \
  X(memfd_create, (char const* name, unsigned flags), (name, flags))                                         \
  X(pidfd_open, (int process, unsigned flags), (process, flags))                                             \
  X(pidfd_send_signal, (int process, int signal, void* information, unsigned flags),                         \
    (process, signal, information, flags))                                                                   \
  X(waitid, (int kind, int id, void* information, int options, void* used),                                  \
    (kind, id, information, options, used))                                                                  \
  X(signalfd, (int fd, std::uint64_t const* signals), (fd, signals))                                         \
  X(inotify_init, (int flags), (flags))                                                                      \
  X(inotify_add_watch, (int fd, char const* path, std::uint32_t events), (fd, path, events))                 \
  X(inotify_rm_watch, (int fd, int watch), (fd, watch))                                                      \
  X(membarrier, (int command, unsigned flags), (command, flags))

struct table {
#define UNIO_MEMBER(name, parameters, arguments) std::int64_t(*name) parameters noexcept;
  UNIO_SYSTEM_CALLS(UNIO_MEMBER)
#undef UNIO_MEMBER
};

/// The kernel's implementation, for tests: a program that links it has all of it.
extern table const kernel;
/// What answers instead of the kernel, or null.
extern table const* current;

inline bool kernel_answers() noexcept { return current == nullptr; }
inline table const* answering() noexcept { return current != nullptr ? current : &kernel; }
/// Has `t` answer from now on. For tests, while nothing else runs.
[[gnu::always_inline]] inline void answer_with(table const* t) noexcept {
  current = t != &kernel ? t : nullptr;
}

#define UNIO_DECLARE(name, parameters, arguments) UNIO_API std::int64_t name parameters noexcept;
UNIO_SYSTEM_CALLS(UNIO_DECLARE)
#undef UNIO_DECLARE
#define UNIO_DECLARE(name, parameters, arguments) std::int64_t name parameters noexcept;
/// By the kernel, whatever answers: for threads of the library that run while a test changes that.
namespace past_tests {
UNIO_SYSTEM_CALLS(UNIO_DECLARE)
} // namespace past_tests
#undef UNIO_DECLARE

/// Calls of the kernel's that are often short, inlined into their callers, for use while kernel_answers().
///
/// A processor that predicts returns by a stack finds the kernel's calls there after a system call, and
/// mispredicts the program's next returns one by one (mitigations such as AMD's safe RET make that the rule).
/// So each function between a short system call and its caller costs some fifty instructions.
namespace kernel_calls {
inline std::int64_t read(int fd, void* data, std::size_t n) noexcept { return call(SYS_read, fd, data, n); }
inline std::int64_t recv(int fd, void* data, std::size_t n, int flags) noexcept {
  return call(SYS_recvfrom, fd, data, n, flags, nullptr, nullptr);
}
inline std::int64_t send(int fd, void const* data, std::size_t n, int flags) noexcept {
  return call(SYS_sendto, fd, data, n, flags, nullptr, 0);
}
inline std::int64_t pread(int fd, void* data, std::size_t n, std::int64_t at) noexcept {
  return call(SYS_pread64, fd, data, n, at);
}
inline std::int64_t preadv2(int fd, void const* v, int n, std::int64_t at, int flags) noexcept {
  return call(SYS_preadv2, fd, v, n, at, 0L, flags); // 64 bits: the low half of the offset is all of it
}
inline std::int64_t io_uring_enter(int fd, unsigned n, unsigned min, unsigned flags, void const* argument,
                                   std::size_t size) noexcept {
  return call(SYS_io_uring_enter, fd, n, min, flags, argument, size);
}
} // namespace kernel_calls

/// Sleeps for a millisecond, in which what is short may come back.
void pause() noexcept;

} // namespace unio::sys
