// System calls by their number: those of syscall(2), and those that code makes by itself (the preloaded
// library's filter sends them here). What the C library has a function for is that function's, which takes
// its place here; io_uring is not there, as in a kernel without; what is harmless goes on, all else is
// refused.

#include "testing/libc/calls_by_number.hpp"

#include "testing/libc/entry.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <string>

namespace unio::inline v0_1::testing::libc {

void link_in_place() noexcept {} // what calls it has the functions of this library in the program

namespace {

// Of this process and its memory alone.
bool is_harmless(long number) noexcept {
  constexpr long all[] = {SYS_gettid,
                          SYS_getpid,
                          SYS_getppid,
                          SYS_getuid,
                          SYS_geteuid,
                          SYS_getgid,
                          SYS_getegid,
                          SYS_sched_yield,
                          SYS_membarrier,
                          SYS_getcpu,
                          SYS_sched_getaffinity,
                          SYS_prctl,
                          SYS_madvise,
                          SYS_mprotect,
                          SYS_mmap,
                          SYS_munmap,
                          SYS_mlock,
                          SYS_rt_sigprocmask,
                          SYS_get_mempolicy,
                          SYS_memfd_create,
                          SYS_exit_group,
                          SYS_uname,
                          SYS_sysinfo};
  for (long const n : all)
    if (n == number) return true;
  return false;
}

// As the kernel returns it.
template <class F> std::int64_t result_of(F f) noexcept {
  int const before = errno;
  auto const r = static_cast<std::int64_t>(f());
  std::int64_t const e = errno;
  errno = before;
  return r == -1 ? -e : r;
}

/// An argument, as what the function takes.
class word {
 public:
  word(long value) noexcept : value_(value) {} // implicit
  template <class T> operator T*() const noexcept { return reinterpret_cast<T*>(value_); }
  operator int() const noexcept { return static_cast<int>(value_); }
  operator unsigned() const noexcept { return static_cast<unsigned>(value_); }
  operator long() const noexcept { return value_; }
  operator unsigned long() const noexcept { return static_cast<unsigned long>(value_); }

 private:
  long value_;
};

struct kernel_mask { // of pselect6(2)
  sigset_t const* mask;
  std::size_t size;
};

int select_with_mask(long const* a) noexcept {
  auto const* const m = reinterpret_cast<kernel_mask const*>(a[5]);
  auto const set = [](long p) { return reinterpret_cast<fd_set*>(p); };
  return ::pselect(static_cast<int>(a[0]), set(a[1]), set(a[2]), set(a[3]),
                   reinterpret_cast<timespec const*>(a[4]), m != nullptr ? m->mask : nullptr);
}

// The kernel's mask is the first word of the C library's; what lies behind is of no signal.
class mask_of {
 public:
  explicit mask_of(long kernels) noexcept : is_there_(kernels != 0) {
    (void)sigemptyset(&mask_);
    if (is_there_) std::memcpy(&mask_, reinterpret_cast<void const*>(kernels), 8);
  }
  operator sigset_t const*() const noexcept { return is_there_ ? &mask_ : nullptr; }

 private:
  sigset_t mask_;
  bool is_there_;
};

std::int64_t wait_on(long const* a) noexcept {
  return sys::futex(reinterpret_cast<std::uint32_t*>(a[0]), static_cast<int>(a[1]),
                    static_cast<std::uint32_t>(a[2]), reinterpret_cast<timespec const*>(a[3]));
}

} // namespace

bool perform_by_number(long number, long const* a, std::int64_t& r) noexcept {
  word const w[6] = {a[0], a[1], a[2], a[3], a[4], a[5]};
  switch (number) {
#define UNIO_BY_NUMBER(number, ...)             \
  case number:                                  \
    r = result_of([&] { return __VA_ARGS__; }); \
    return true;
    UNIO_BY_NUMBER(SYS_read, ::read(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_write, ::write(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_readv, ::readv(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_writev, ::writev(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_pread64, ::pread(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_pwrite64, ::pwrite(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_preadv, ::preadv(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_pwritev, ::pwritev(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_preadv2, ::preadv2(w[0], w[1], w[2], w[3], w[5]))
    UNIO_BY_NUMBER(SYS_pwritev2, ::pwritev2(w[0], w[1], w[2], w[3], w[5]))
    UNIO_BY_NUMBER(SYS_recvfrom, ::recvfrom(w[0], w[1], w[2], w[3], w[4], w[5]))
    UNIO_BY_NUMBER(SYS_sendto, ::sendto(w[0], w[1], w[2], w[3], w[4], w[5]))
    UNIO_BY_NUMBER(SYS_recvmsg, ::recvmsg(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_sendmsg, ::sendmsg(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_recvmmsg, ::recvmmsg(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_sendmmsg, ::sendmmsg(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_close, ::close(w[0]))
    UNIO_BY_NUMBER(SYS_socket, ::socket(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_socketpair, ::socketpair(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_connect, ::connect(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_bind, ::bind(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_listen, ::listen(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_accept, ::accept(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_accept4, ::accept4(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_shutdown, ::shutdown(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_getsockname, ::getsockname(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_getpeername, ::getpeername(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_getsockopt, ::getsockopt(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_setsockopt, ::setsockopt(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_poll, ::poll(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_ppoll, ::ppoll(w[0], w[1], w[2], mask_of(a[3])))
    UNIO_BY_NUMBER(SYS_select, ::select(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_pselect6, select_with_mask(a))
    UNIO_BY_NUMBER(SYS_epoll_create, ::epoll_create(w[0]))
    UNIO_BY_NUMBER(SYS_epoll_create1, ::epoll_create1(w[0]))
    UNIO_BY_NUMBER(SYS_epoll_ctl, ::epoll_ctl(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_epoll_wait, ::epoll_wait(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_epoll_pwait, ::epoll_pwait(w[0], w[1], w[2], w[3], mask_of(a[4])))
    UNIO_BY_NUMBER(SYS_epoll_pwait2, ::epoll_pwait2(w[0], w[1], w[2], w[3], mask_of(a[4])))
    UNIO_BY_NUMBER(SYS_eventfd, ::eventfd(w[0], 0))
    UNIO_BY_NUMBER(SYS_eventfd2, ::eventfd(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_timerfd_create, ::timerfd_create(static_cast<clockid_t>(a[0]), w[1]))
    UNIO_BY_NUMBER(SYS_timerfd_settime, ::timerfd_settime(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_timerfd_gettime, ::timerfd_gettime(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_pipe, ::pipe(w[0]))
    UNIO_BY_NUMBER(SYS_pipe2, ::pipe2(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_dup, ::dup(w[0]))
    UNIO_BY_NUMBER(SYS_dup2, ::dup2(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_dup3, ::dup3(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_fcntl, ::fcntl(w[0], w[1], a[2]))
    UNIO_BY_NUMBER(SYS_ioctl, ::ioctl(w[0], static_cast<unsigned long>(a[1]), a[2]))
    UNIO_BY_NUMBER(SYS_lseek, ::lseek(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_openat, ::openat(w[0], w[1], w[2], static_cast<unsigned>(a[3])))
    UNIO_BY_NUMBER(SYS_statx, ::statx(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_newfstatat, ::fstatat(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_fstat, ::fstat(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_faccessat, ::faccessat(w[0], w[1], w[2], 0))
    UNIO_BY_NUMBER(SYS_ftruncate, ::ftruncate(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_truncate, ::truncate(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_fsync, ::fsync(w[0]))
    UNIO_BY_NUMBER(SYS_fdatasync, ::fdatasync(w[0]))
    UNIO_BY_NUMBER(SYS_mkdirat, ::mkdirat(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_unlinkat, ::unlinkat(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_renameat2, ::renameat2(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_linkat, ::linkat(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_symlinkat, ::symlinkat(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_fchmodat, ::fchmodat(w[0], w[1], w[2], 0))
    UNIO_BY_NUMBER(SYS_fchownat, ::fchownat(w[0], w[1], w[2], w[3], w[4]))
    UNIO_BY_NUMBER(SYS_utimensat, a[1] != 0 ? ::utimensat(w[0], w[1], w[2], w[3]) : ::futimens(w[0], w[2]))
    UNIO_BY_NUMBER(SYS_fallocate, ::fallocate(w[0], w[1], w[2], w[3]))
    UNIO_BY_NUMBER(SYS_flock, ::flock(w[0], w[1]))
    UNIO_BY_NUMBER(SYS_getrandom, ::getrandom(w[0], w[1], w[2]))
    UNIO_BY_NUMBER(SYS_sched_yield, ::sched_yield())
    UNIO_BY_NUMBER(SYS_clock_gettime, ::clock_gettime(static_cast<clockid_t>(a[0]), w[1]))
    UNIO_BY_NUMBER(SYS_nanosleep, ::nanosleep(w[0], w[1]))
#undef UNIO_BY_NUMBER
    case SYS_clock_nanosleep: // which returns its error
      r = -std::int64_t{::clock_nanosleep(static_cast<clockid_t>(a[0]), w[1], w[2], w[3])};
      return true;
    case SYS_futex: // the thread may wait there, and is the program's
      r = wait_on(a);
      return true;
    case SYS_io_uring_setup:
    case SYS_io_uring_enter:
    case SYS_io_uring_register:
      r = -ENOSYS;
      return true;
    case SYS_getdents64: // of a simulated directory it is refused
      if (find_file(static_cast<int>(a[0])) != nullptr) return false;
      r = raw(number, a[0], a[1], a[2]);
      return true;
    default:
      return false;
  }
}

UNIO_IN_PLACE(long, syscall, (long number, ...)) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  bool simulates = false;
  {
    entry const e("syscall(2)", UNIO_CALLER);
    simulates = e.simulates();
    bool const is_to_itself = number == SYS_tgkill && (a[1] == raw(SYS_gettid) || a[2] == 0);
    if (!simulates || is_harmless(number) || is_to_itself)
      return answer(raw(number, a[0], a[1], a[2], a[3], a[4], a[5]));
  }
  calls_for const caller(UNIO_CALLER);
  std::int64_t r = 0;
  if (perform_by_number(number, a, r)) return answer(r);
  entry const e("syscall(2)", UNIO_CALLER);
  return answer(refuse("syscall(" + std::to_string(number) + ", ...)"));
}

} // namespace unio::testing::libc
