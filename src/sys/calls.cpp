// The kernel's own answers. Raw system calls where the C library would add something: a cancellation point, a
// copy of the arguments, or a name that depends on feature macros.

#include "sys/calls.hpp"

#include "sys/kernel_abi.hpp"
#include "sys/sanitizer.hpp"
#include "sys/sigpipe.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace unio::sys {
namespace {

std::int64_t checked(long r) noexcept { return r < 0 ? -errno : r; }

std::int64_t now(clockid_t clock) noexcept {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// preadv2(2) and pwritev2(2) take the offset in two halves; on 64-bit machines the low one holds all of it.
static_assert(sizeof(long) == 8, "unio supports 64-bit Linux");

constexpr std::size_t kernel_sigset_size =
    8; // bytes of the kernel's sigset_t, which ppoll(2) and epoll_pwait2(2) check

} // namespace

constinit table const kernel = {
    .openat = [](int dir, char const* path, int flags,
                 unsigned mode) noexcept { return call(SYS_openat, dir, path, flags, mode); },
    .close = [](int fd) noexcept { return call(SYS_close, fd); },
    .read = kernel_calls::read,
    .write = [](int fd, void const* data, std::size_t n) noexcept { return call(SYS_write, fd, data, n); },
    .readv = [](int fd, iovec const* v, int n) noexcept { return call(SYS_readv, fd, v, n); },
    .writev = [](int fd, iovec const* v, int n) noexcept { return call(SYS_writev, fd, v, n); },
    .preadv2 = [](int fd, iovec const* v, int n, std::int64_t at,
                  int flags) noexcept { return call(SYS_preadv2, fd, v, n, at, 0L, flags); },
    .pwritev2 =
        [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
          auto const write = [&]() noexcept { return call(SYS_pwritev2, fd, v, n, at, 0L, flags); };
          if ((flags & rwf_nosignal) != 0 || !file_size_is_limited()) [[likely]] // the first is for pipes
            return write();
          return without_signals(write);
        },
    .recv = kernel_calls::recv,
    .recvmsg = [](int fd, msghdr* m, int flags) noexcept { return call(SYS_recvmsg, fd, m, flags); },
    .send = [](int fd, void const* data, std::size_t n,
               int flags) noexcept { return call(SYS_sendto, fd, data, n, flags, nullptr, 0); },
    .sendmsg = [](int fd, msghdr const* m, int flags) noexcept { return call(SYS_sendmsg, fd, m, flags); },
    // Without a timeout: the kernel looks at it only after each datagram (recvmmsg(2), BUGS).
    .recvmmsg = [](int fd, mmsghdr* m, unsigned n,
                   int flags) noexcept { return call(SYS_recvmmsg, fd, m, n, flags, nullptr); },
    .sendmmsg = [](int fd, mmsghdr* m, unsigned n,
                   int flags) noexcept { return call(SYS_sendmmsg, fd, m, n, flags); },
    .splice = [](int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n,
                 unsigned flags) noexcept { return call(SYS_splice, in, in_at, out, out_at, n, flags); },
    .vmsplice = [](int pipe, iovec const* v, int n,
                   unsigned flags) noexcept { return call(SYS_vmsplice, pipe, v, n, flags); },
    .fsync = [](int fd) noexcept { return call(SYS_fsync, fd); },
    .fdatasync = [](int fd) noexcept { return call(SYS_fdatasync, fd); },
    .sync_file_range = [](int fd, std::int64_t at, std::int64_t n,
                          unsigned flags) noexcept { return checked(::sync_file_range(fd, at, n, flags)); },
    .accept4 = [](int fd, sockaddr* a, unsigned* size,
                  int flags) noexcept { return call(SYS_accept4, fd, a, size, flags); },
    .connect = [](int fd, sockaddr const* a,
                  unsigned size) noexcept { return call(SYS_connect, fd, a, size); },
    .socket = [](int family, int type,
                 int protocol) noexcept { return call(SYS_socket, family, type, protocol); },
    .socketpair = [](int family, int type, int protocol,
                     int* fds) noexcept { return call(SYS_socketpair, family, type, protocol, fds); },
    .bind = [](int fd, sockaddr const* a, unsigned size) noexcept { return call(SYS_bind, fd, a, size); },
    .listen = [](int fd, int backlog) noexcept { return call(SYS_listen, fd, backlog); },
    .shutdown = [](int fd, int how) noexcept { return call(SYS_shutdown, fd, how); },
    .getsockname = [](int fd, sockaddr* a,
                      unsigned* size) noexcept { return call(SYS_getsockname, fd, a, size); },
    .getpeername = [](int fd, sockaddr* a,
                      unsigned* size) noexcept { return call(SYS_getpeername, fd, a, size); },
    .getsockopt = [](int fd, int level, int name, void* v,
                     unsigned* size) noexcept { return call(SYS_getsockopt, fd, level, name, v, size); },
    .setsockopt = [](int fd, int level, int name, void const* v,
                     unsigned size) noexcept { return call(SYS_setsockopt, fd, level, name, v, size); },
    .poll =
        [](pollfd* fds, unsigned n, timespec const* timeout) noexcept {
          timespec copy =
              timeout != nullptr ? *timeout : timespec{}; // the raw call writes the time left into it
          return call(SYS_ppoll, fds, n, timeout != nullptr ? &copy : nullptr, nullptr, kernel_sigset_size);
        },
    .epoll_create = [](int flags) noexcept { return call(SYS_epoll_create1, flags); },
    .epoll_ctl = [](int epoll, int op, int fd,
                    epoll_event* e) noexcept { return call(SYS_epoll_ctl, epoll, op, fd, e); },
    .epoll_wait = [](int epoll, epoll_event* e, int n, timespec const* timeout) noexcept -> std::int64_t {
      std::int64_t const r = call(SYS_epoll_pwait2, epoll, e, n, timeout, nullptr, kernel_sigset_size);
      if (r != -ENOSYS) return r;
      // Before Linux 5.11: milliseconds, rounded up so that a deadline is never reported early.
      std::int64_t ms = -1;
      if (timeout != nullptr)
        ms = std::int64_t{timeout->tv_sec} * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000;
      return call(SYS_epoll_pwait, epoll, e, n, static_cast<int>(ms > 1'000'000'000 ? 1'000'000'000 : ms),
                  nullptr, kernel_sigset_size);
    },
    .eventfd = [](unsigned initial, int flags) noexcept { return call(SYS_eventfd2, initial, flags); },
    .pipe = [](int* fds, int flags) noexcept { return call(SYS_pipe2, fds, flags); },
    .mkfifo = [](int dir, char const* path,
                 unsigned mode) noexcept { return call(SYS_mknodat, dir, path, mode | S_IFIFO, 0); },
    .fcntl = [](int fd, int command,
                long argument) noexcept { return call(SYS_fcntl, fd, command, argument); },
    .fstat = [](int fd, struct stat* s) noexcept { return checked(::fstat(fd, s)); },
    .ftruncate =
        [](int fd, std::int64_t size) noexcept {
          auto const cut = [&]() noexcept { return checked(::ftruncate(fd, size)); };
          return file_size_is_limited_now() ? without_signals(cut) : cut();
        },
    .fallocate =
        [](int fd, int mode, std::int64_t at, std::int64_t n) noexcept {
          auto const allocate = [&]() noexcept { return checked(::fallocate(fd, mode, at, n)); };
          return file_size_is_limited_now() ? without_signals(allocate) : allocate();
        },
    .unlinkat = [](int dir, char const* path,
                   int flags) noexcept { return call(SYS_unlinkat, dir, path, flags); },
    .renameat =
        [](int from_dir, char const* from, int to_dir, char const* to, unsigned flags) noexcept {
          return call(SYS_renameat2, from_dir, from, to_dir, to, flags);
        },
    .readlinkat = [](int dir, char const* path, char* out,
                     std::size_t n) noexcept { return call(SYS_readlinkat, dir, path, out, n); },
    .getrandom = [](void* data, std::size_t n,
                    unsigned flags) noexcept { return call(SYS_getrandom, data, n, flags); },
    .sched_yield = []() noexcept { return call(SYS_sched_yield); },
    .io_uring_setup = [](unsigned entries,
                         io_uring_params* p) noexcept { return call(SYS_io_uring_setup, entries, p); },
    .io_uring_enter =
        [](int fd, unsigned n, unsigned min, unsigned flags, void const* argument,
           std::size_t size) noexcept { return call(SYS_io_uring_enter, fd, n, min, flags, argument, size); },
    .io_uring_register =
        [](int fd, unsigned opcode, void* argument, unsigned n) noexcept {
          return call(SYS_io_uring_register, fd, opcode, argument, n);
        },
    .steady_now = []() noexcept { return now(CLOCK_MONOTONIC); },
    .system_now = []() noexcept { return now(CLOCK_REALTIME); },
    .fstatat = [](int dir, char const* path, struct stat* s,
                  int flags) noexcept { return checked(::fstatat(dir, path, s, flags)); },
    .fstatfs = [](int fd, struct statfs* s) noexcept { return checked(::fstatfs(fd, s)); },
    .statx = [](int dir, char const* path, int flags, unsigned mask,
                struct statx* s) noexcept { return call(SYS_statx, dir, path, flags, mask, s); },
    .fadvise = [](int fd, std::int64_t at, std::int64_t n,
                  int advice) noexcept { return -std::int64_t{::posix_fadvise(fd, at, n, advice)}; },
    .fchmod = [](int fd, unsigned mode) noexcept { return call(SYS_fchmod, fd, mode); },
    .linkat = [](int from_dir, char const* from, int to_dir, char const* to,
                 int flags) noexcept { return call(SYS_linkat, from_dir, from, to_dir, to, flags); },
    .lseek = [](int fd, std::int64_t at, int whence) noexcept { return call(SYS_lseek, fd, at, whence); },
    .mmap =
        [](void* at, std::size_t n, int protection, int flags, int fd, std::int64_t offset) noexcept {
          std::int64_t const r = call(SYS_mmap, at, n, protection, flags, fd, offset);
          has_mapped();
          return r;
        },
    .munmap =
        [](void* at, std::size_t n) noexcept {
          will_unmap();
          return call(SYS_munmap, at, n);
        },
    .futex =
        [](std::uint32_t* word, int operation, std::uint32_t value, timespec const* timeout) noexcept {
          return call(SYS_futex, word, operation, value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
        },
};

constinit table const* current = &kernel;

} // namespace unio::sys
