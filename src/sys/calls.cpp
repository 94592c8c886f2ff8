// The kernel's own answers. Raw system calls where the C library would add something: a cancellation point, a
// copy of the arguments, or a name that depends on feature macros.

#include "sys/calls.hpp"

#include "sys/kernel_abi.hpp"
#include "sys/sanitizer.hpp"
#include "sys/sigpipe.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <atomic>
#include <ctime>

namespace unio::inline v0_1::sys {
namespace {

std::int64_t checked(long r) noexcept { return r < 0 ? -errno : r; }

std::int64_t now(clockid_t clock) noexcept {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// preadv2(2) and pwritev2(2) take the offset in two halves; on 64-bit machines the low one holds all of it.
static_assert(sizeof(long) == 8, "unio supports 64-bit Linux");

// preadv2(2) or pwritev2(2). One buffer without flags, as most are, goes by pread(2) and its kin: the kernel
// copies no vector, which saves 40 of 490 ns for 4 KiB of the page cache.
template <long Vector, long At, long Here>
std::int64_t move(int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
  if (n != 1 || flags != 0) return call(Vector, fd, v, n, at, 0L, flags);
  if (at == -1) return call(Here, fd, v->iov_base, v->iov_len);
  return call(At, fd, v->iov_base, v->iov_len, at);
}

// A call whose arguments go to the kernel as they are.
template <long Number, class... Arguments> std::int64_t direct(Arguments... arguments) noexcept {
  return call(Number, arguments...);
}

// Bytes of the kernel's sigset_t, which ppoll(2) and epoll_pwait2(2) check.
constexpr std::size_t kernel_sigset_size = 8;

constexpr table own = {
    .openat = direct<SYS_openat>,
    .close = direct<SYS_close>,
    .read = kernel_calls::read,
    .write = direct<SYS_write>,
    .readv = direct<SYS_readv>,
    .writev = direct<SYS_writev>,
    .preadv2 = move<SYS_preadv2, SYS_pread64, SYS_read>,
    .pwritev2 =
        [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
          auto const write = [&]() noexcept {
            return move<SYS_pwritev2, SYS_pwrite64, SYS_write>(fd, v, n, at, flags);
          };
          if ((flags & rwf_nosignal) != 0 || !file_size_is_limited()) [[likely]] // the first is for pipes
            return write();
          return without_signals(write);
        },
    .recv = kernel_calls::recv,
    .send = [](int fd, void const* data, std::size_t n,
               int flags) noexcept { return call(SYS_sendto, fd, data, n, flags, nullptr, 0); },
    .recvmsg = direct<SYS_recvmsg>,
    .sendmsg = direct<SYS_sendmsg>,
    // Without a timeout: the kernel looks at it only after each datagram (recvmmsg(2), BUGS).
    .recvmmsg = [](int fd, mmsghdr* m, unsigned n,
                   int flags) noexcept { return call(SYS_recvmmsg, fd, m, n, flags, nullptr); },
    .sendmmsg = direct<SYS_sendmmsg>,
    .splice = direct<SYS_splice>,
    .vmsplice = direct<SYS_vmsplice>,
    .fsync = direct<SYS_fsync>,
    .fdatasync = direct<SYS_fdatasync>,
    .sync_file_range = [](int fd, std::int64_t at, std::int64_t n,
                          unsigned flags) noexcept { return checked(::sync_file_range(fd, at, n, flags)); },
    .accept4 = direct<SYS_accept4>,
    .connect = direct<SYS_connect>,
    .socket = direct<SYS_socket>,
    .socketpair = direct<SYS_socketpair>,
    .bind = direct<SYS_bind>,
    .listen = direct<SYS_listen>,
    .shutdown = direct<SYS_shutdown>,
    .getsockname = direct<SYS_getsockname>,
    .getpeername = direct<SYS_getpeername>,
    .getsockopt = direct<SYS_getsockopt>,
    .setsockopt = direct<SYS_setsockopt>,
    .poll =
        [](pollfd* fds, unsigned n, timespec const* timeout) noexcept {
          timespec copy = timeout != nullptr ? *timeout : timespec{}; // which gets the time left
          return call(SYS_ppoll, fds, n, timeout != nullptr ? &copy : nullptr, nullptr, kernel_sigset_size);
        },
    .epoll_create = direct<SYS_epoll_create1>,
    .epoll_ctl = direct<SYS_epoll_ctl>,
    .epoll_wait = [](int epoll, epoll_event* e, int n, timespec const* timeout) noexcept -> std::int64_t {
      static constinit std::atomic<bool> is_missing{false}; // relaxed: every thread finds the same
      if (!is_missing.load(std::memory_order_relaxed)) [[likely]] {
        std::int64_t const r = call(SYS_epoll_pwait2, epoll, e, n, timeout, nullptr, kernel_sigset_size);
        if (r != -ENOSYS && r != -EPERM) return r;
        is_missing.store(true, std::memory_order_relaxed);
      }
      // Before Linux 5.11, and where a filter of system calls is older and answers EPERM: milliseconds,
      // rounded up so that a deadline is never reported early.
      std::int64_t ms = -1;
      if (timeout != nullptr)
        ms = std::int64_t{timeout->tv_sec} * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000;
      return call(SYS_epoll_pwait, epoll, e, n, static_cast<int>(ms > 1'000'000'000 ? 1'000'000'000 : ms),
                  nullptr, kernel_sigset_size);
    },
    .eventfd = direct<SYS_eventfd2>,
    .pipe = direct<SYS_pipe2>,
    .mkfifo = [](int dir, char const* path,
                 unsigned mode) noexcept { return call(SYS_mknodat, dir, path, mode | S_IFIFO, 0); },
    .fcntl = direct<SYS_fcntl>,
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
    .unlinkat = direct<SYS_unlinkat>,
    .renameat = direct<SYS_renameat2>,
    .readlinkat = direct<SYS_readlinkat>,
    .getrandom = direct<SYS_getrandom>,
    .sched_yield = direct<SYS_sched_yield>,
    .io_uring_setup = direct<SYS_io_uring_setup>,
    .io_uring_enter = direct<SYS_io_uring_enter>,
    .io_uring_register = direct<SYS_io_uring_register>,
    .io_setup = direct<SYS_io_setup>,
    .io_submit = direct<SYS_io_submit>,
    .io_destroy = direct<SYS_io_destroy>,
    .steady_now = []() noexcept { return now(CLOCK_MONOTONIC); },
    .system_now = []() noexcept { return now(CLOCK_REALTIME); },
    .ask_libc = []() noexcept { return std::int64_t{0}; },
    .fstatat = [](int dir, char const* path, struct stat* s,
                  int flags) noexcept { return checked(::fstatat(dir, path, s, flags)); },
    .fstatfs = [](int fd, struct statfs* s) noexcept { return checked(::fstatfs(fd, s)); },
    .statx = direct<SYS_statx>,
    .fadvise = [](int fd, std::int64_t at, std::int64_t n,
                  int advice) noexcept { return -std::int64_t{::posix_fadvise(fd, at, n, advice)}; },
    .fchmod = direct<SYS_fchmod>,
    .lseek = direct<SYS_lseek>,
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
    .futex_waitv =
        [](waited_word* words, unsigned n) noexcept {
          return call(sys_futex_waitv, words, n, 0U, nullptr, CLOCK_MONOTONIC);
        },
    .openat2 = direct<SYS_openat2>,
    .getdents64 = direct<SYS_getdents64>,
    .mkdirat = direct<SYS_mkdirat>,
    .mknodat = direct<SYS_mknodat>,
    .symlinkat = direct<SYS_symlinkat>,
    .linkat = direct<SYS_linkat>,
    .fchmodat2 = [](int dir, char const* path, unsigned mode, int flags) noexcept -> std::int64_t {
      std::int64_t const r = call(sys_fchmodat2, dir, path, mode, flags);
      // Before Linux 6.6; EPERM: perhaps of a filter that does not know the call.
      return (r == -ENOSYS || r == -EPERM) && flags == 0 ? call(SYS_fchmodat, dir, path, mode) : r;
    },
    .fchownat = direct<SYS_fchownat>,
    .utimensat = direct<SYS_utimensat>,
    .getxattr = direct<SYS_getxattr>,
    .setxattr = direct<SYS_setxattr>,
    .listxattr = direct<SYS_listxattr>,
    .removexattr = direct<SYS_removexattr>,
    .fgetxattr = direct<SYS_fgetxattr>,
    .fsetxattr = direct<SYS_fsetxattr>,
    .flistxattr = direct<SYS_flistxattr>,
    .fremovexattr = direct<SYS_fremovexattr>,
    .copy_file_range =
        [](int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n,
           unsigned flags) noexcept {
          auto const copy = [&]() noexcept {
            return call(SYS_copy_file_range, in, in_at, out, out_at, n, flags);
          };
          return file_size_is_limited_now() ? without_signals(copy) : copy();
        },
    .ioctl = direct<SYS_ioctl>,
    .syncfs = direct<SYS_syncfs>,
    .tee = direct<SYS_tee>,
    .madvise = direct<SYS_madvise>,
    .msync = direct<SYS_msync>,
    .mprotect = direct<SYS_mprotect>,
    .memfd_create = direct<SYS_memfd_create>,
    .pidfd_open = direct<SYS_pidfd_open>,
    .pidfd_send_signal = direct<SYS_pidfd_send_signal>,
    .waitid = [](int kind, int id, void* information, int options,
                 void* used) noexcept { return call(SYS_waitid, kind, id, information, options, used); },
    .signalfd =
        [](int fd, std::uint64_t const* signals) noexcept {
          return call(SYS_signalfd4, fd, signals, kernel_sigset_size, SFD_CLOEXEC | SFD_NONBLOCK);
        },
    .inotify_init = direct<SYS_inotify_init1>,
    .inotify_add_watch = direct<SYS_inotify_add_watch>,
    .inotify_rm_watch = direct<SYS_inotify_rm_watch>,
    .membarrier = direct<SYS_membarrier>,
};

} // namespace

constinit table const kernel = own;
constinit table const* current = nullptr;

// A function for each, so that a program has those that it calls.
#define UNIO_DEFINE(name, parameters, arguments)                                   \
  std::int64_t past_tests::name parameters noexcept { return own.name arguments; } \
  std::int64_t name parameters noexcept {                                          \
    if (table const* const answers = current; answers != nullptr) [[unlikely]]     \
      return answers->name arguments;                                              \
    return own.name arguments;                                                     \
  }
UNIO_SYSTEM_CALLS(UNIO_DEFINE)
#undef UNIO_DEFINE

void pause() noexcept {
  constexpr timespec a_millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  poll(nullptr, 0, &a_millisecond);
}

} // namespace unio::sys
