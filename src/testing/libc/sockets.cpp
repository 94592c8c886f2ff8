// Making, naming and closing descriptors; options; fcntl and ioctl.

#include "testing/libc/entry.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <ctime>

namespace unio::inline v0_1::testing::libc {
namespace {

constexpr std::int64_t year_2020 = 1'577'836'800 * second; // as the table's system_now

// Two new numbers, both or none.
std::int64_t add_both(int const (&in_world)[2], int (&fds)[2], bool closes, bool is_nonblocking) noexcept {
  fds[0] = add_descriptor(in_world[0], closes, is_nonblocking);
  fds[1] = add_descriptor(in_world[1], closes, is_nonblocking);
  if (fds[0] >= 0 && fds[1] >= 0) return 0;
  std::int64_t const r = fds[0] < 0 ? fds[0] : fds[1];
  for (int const fd : fds) {
    if (fd < 0) continue;
    drop_file(fd);
    (void)raw(SYS_close, fd);
  }
  return r;
}

std::int64_t accept_one(open_file& f, int fd, sockaddr* from, socklen_t* size, int flags) noexcept {
  if (f.in_world < 0) return -ENOTSOCK;
  if ((flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0) return -EINVAL;
  std::int64_t const r = perform(f, fd, POLLIN, f.receive_timeout, !f.is_nonblocking, [&]() noexcept {
    return sys::accept4(f.in_world, from, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  });
  int const accepted = add_descriptor(r, (flags & SOCK_CLOEXEC) != 0, (flags & SOCK_NONBLOCK) != 0);
  sockaddr_storage own{};
  unsigned n = sizeof own;
  bool const inherits = accepted >= 0 &&
                        sys::getsockname(f.in_world, reinterpret_cast<sockaddr*>(&own), &n) >= 0 &&
                        own.ss_family != AF_UNIX;
  if (!inherits) return accepted;
  file_pointer const a = find_file(accepted);
  a->receive_timeout = f.receive_timeout;
  a->send_timeout = f.send_timeout;
  return accepted;
}

std::int64_t connect_one(open_file& f, int fd, sockaddr const* to, socklen_t size) noexcept {
  if (f.in_world < 0) return -ENOTSOCK;
  constexpr std::int64_t patience = 1'000'000;
  for (;;) {
    std::int64_t const r = sys::connect(f.in_world, to, size);
    if (f.is_nonblocking) return r;
    if (r == -EAGAIN) { // a Unix listener's backlog is full
      sleep_for(patience);
      continue;
    }
    if (r != -EINPROGRESS && r != -EALREADY) return r;
    std::int64_t const n = wait_for(f, fd, POLLOUT, f.send_timeout);
    if (n < 0) return n;
    if (n == 0) return -EINPROGRESS; // else the next call tells what became of it
  }
}

// The wildcard of a Unix address is the caller's length; nothing else is looked at here.
std::int64_t close_number(int fd) noexcept {
  file_pointer const f = find_file(fd);
  if (f == nullptr) return is_internal(fd) ? -EBADF : raw(SYS_close, fd);
  drop_file(fd);
  (void)raw(SYS_close, fd);
  return 0;
}

std::int64_t duplicate(int fd, int to, int flags) noexcept {
  file_pointer const f = find_file(fd);
  if (is_internal(to) || is_internal(fd)) return -EBADF;
  if (f == nullptr) {
    if (find_file(to) == nullptr) return raw(SYS_dup3, fd, to, flags);
    if (raw(SYS_fcntl, fd, F_GETFD) < 0) return -EBADF;
    drop_file(to);
    return raw(SYS_dup3, fd, to, flags);
  }
  if (to >= 0 && to <= STDERR_FILENO) // the C library's streams write to it by themselves
    return refuse("dup2(2) of a simulated descriptor to standard input, output or error");
  std::int64_t const r = raw(SYS_dup3, placeholder(), to, O_CLOEXEC);
  if (r < 0) return r;
  drop_file(to);
  put_file(to, f, (flags & O_CLOEXEC) != 0);
  return to;
}

std::int64_t control(open_file& f, int fd, int command, long argument) noexcept {
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return add_file(find_file(fd), command == F_DUPFD_CLOEXEC, static_cast<int>(argument));
    case F_GETFD:
      return closes_on_exec(fd) ? FD_CLOEXEC : 0;
    case F_SETFD:
      set_closes_on_exec(fd, (argument & FD_CLOEXEC) != 0);
      return 0;
    case F_GETFL: {
      std::int64_t const status = f.in_world >= 0 ? sys::fcntl(f.in_world, F_GETFL, 0) : O_RDWR;
      return status < 0 ? status : (status & ~O_NONBLOCK) | (f.is_nonblocking ? O_NONBLOCK : 0);
    }
    case F_SETFL:
      f.is_nonblocking = (argument & O_NONBLOCK) != 0;
      return f.in_world >= 0 ? sys::fcntl(f.in_world, F_SETFL, argument) : 0;
    case F_SETOWN:
    case F_SETSIG:
      return refuse("fcntl(2) with signals for readiness");
    case F_SETLK:
    case F_SETLKW: { // one process: locks of its own never conflict
      auto const& l = *reinterpret_cast<struct flock const*>(argument);
      return l.l_type == F_RDLCK || l.l_type == F_WRLCK || l.l_type == F_UNLCK ? 0 : -EINVAL;
    }
    case F_GETLK:
      reinterpret_cast<struct flock*>(argument)->l_type = F_UNLCK;
      return 0;
    default:
      return f.in_world >= 0 ? sys::fcntl(f.in_world, command, argument) : -EINVAL;
  }
}

std::int64_t device(open_file& f, int fd, unsigned long request, void* argument) noexcept {
  switch (request) {
    case FIONBIO:
      f.is_nonblocking = *static_cast<int const*>(argument) != 0;
      return 0;
    case FIONREAD: {
      alone const inside;
      std::int64_t const n = f.in_world >= 0 ? answering_world()->waiting_bytes(f.in_world) : -EINVAL;
      if (n < 0) return n;
      *static_cast<int*>(argument) = static_cast<int>(n);
      return 0;
    }
    case SIOCOUTQ:
    case SIOCATMARK:
      *static_cast<int*>(argument) = 0;
      return 0;
    case FIOCLEX:
    case FIONCLEX:
      set_closes_on_exec(fd, request == FIOCLEX);
      return 0;
    case TCGETS:
    case TIOCGWINSZ:
    case TIOCGPGRP:
      return -ENOTTY;
    default:
      return refuse("ioctl(2) with this request");
  }
}

std::int64_t to_ns(timeval const& t) noexcept { return libc::to_ns(t.tv_sec, t.tv_usec * 1000); }

std::int64_t* timeout_of(open_file& f, int level, int name) noexcept {
  if (level != SOL_SOCKET) return nullptr;
  return name == SO_RCVTIMEO ? &f.receive_timeout : name == SO_SNDTIMEO ? &f.send_timeout : nullptr;
}

void tell_timer(open_file const& f, itimerspec& now) noexcept {
  std::int64_t due = 0, interval = 0;
  answering_world()->timer_of(f.in_world, due, interval);
  now.it_interval = to_timespec(interval);
  now.it_value = to_timespec(due == 0 ? 0 : std::max<std::int64_t>(1, due - answering_world()->now()));
}

} // namespace

// ---- making

UNIO_IN_PLACE(int, socket, (int family, int type, int protocol)) {
  entry const e("socket(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_socket, family, type, protocol));
  return answer<int>(add_descriptor(sys::socket(family, type, protocol), (type & SOCK_CLOEXEC) != 0,
                                    (type & SOCK_NONBLOCK) != 0));
}

UNIO_IN_PLACE(int, socketpair, (int family, int type, int protocol, int* fds)) {
  entry const e("socketpair(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_socketpair, family, type, protocol, fds));
  int in_world[2];
  if (std::int64_t const r = sys::socketpair(family, type, protocol, in_world); r < 0) return answer<int>(r);
  int numbers[2];
  std::int64_t const r = add_both(in_world, numbers, (type & SOCK_CLOEXEC) != 0, (type & SOCK_NONBLOCK) != 0);
  if (r == 0) std::copy_n(numbers, 2, fds);
  return answer<int>(r);
}

UNIO_IN_PLACE(int, pipe2, (int* fds, int flags)) {
  entry const e("pipe2(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_pipe2, fds, flags));
  if ((flags & ~(O_CLOEXEC | O_NONBLOCK)) != 0) return answer<int>(refuse("pipe2(2) with these flags"));
  int in_world[2];
  if (std::int64_t const r = sys::pipe(in_world, O_CLOEXEC); r < 0) return answer<int>(r);
  int numbers[2];
  std::int64_t const r = add_both(in_world, numbers, (flags & O_CLOEXEC) != 0, (flags & O_NONBLOCK) != 0);
  if (r == 0) std::copy_n(numbers, 2, fds);
  return answer<int>(r);
}
UNIO_ALSO(int, pipe, (int* fds), pipe2, (fds, 0))

UNIO_IN_PLACE(int, eventfd, (unsigned initial, int flags)) {
  entry const e("eventfd(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_eventfd2, initial, flags));
  if ((flags & ~(EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) != 0) return answer<int>(-EINVAL);
  return answer<int>(
      add_descriptor(sys::eventfd(initial, flags), (flags & EFD_CLOEXEC) != 0, (flags & EFD_NONBLOCK) != 0));
}

UNIO_IN_PLACE(int, timerfd_create, (int clock, int flags)) {
  entry const e("timerfd_create(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_timerfd_create, clock, flags));
  bool const is_known = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
                        clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM;
  if (!is_known || (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK)) != 0) return answer<int>(-EINVAL);
  std::int64_t in_world = 0;
  {
    alone const inside;
    in_world = answering_world()->make_timer();
  }
  int const fd = add_descriptor(in_world, (flags & TFD_CLOEXEC) != 0, (flags & TFD_NONBLOCK) != 0);
  if (fd >= 0) find_file(fd)->is_wall_clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM;
  return answer<int>(fd);
}

UNIO_IN_PLACE(int, timerfd_settime, (int fd, int flags, itimerspec const* next, itimerspec* before)) {
  entry const e("timerfd_settime(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_timerfd_settime, fd, flags, next, before));
  if (f->in_world < 0) return answer<int>(-EINVAL);
  auto const is_moment = [](timespec const& t) {
    return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < second;
  };
  if (!is_moment(next->it_value) || !is_moment(next->it_interval)) return answer<int>(-EINVAL);
  if ((flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) != 0) return answer<int>(-EINVAL);
  alone const inside;
  world& w = *answering_world();
  if (before != nullptr) tell_timer(*f, *before);
  std::int64_t due = to_ns(next->it_value);
  if (due != 0 && (flags & TFD_TIMER_ABSTIME) != 0) {
    if (f->is_wall_clock && due != deadline::forever) due -= year_2020;
    if (due == 0) due = -1; // in the past as well, and armed
  } else if (due != 0) {
    due = w.moment(due);
  }
  return answer<int>(w.arm_timer(f->in_world, due, to_ns(next->it_interval)));
}

UNIO_IN_PLACE(int, timerfd_gettime, (int fd, itimerspec* now)) {
  entry const e("timerfd_gettime(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_timerfd_gettime, fd, now));
  if (f->in_world < 0) return answer<int>(-EINVAL);
  alone const inside;
  if (!answering_world()->is_timer(f->in_world)) return answer<int>(-EINVAL);
  tell_timer(*f, *now);
  return 0;
}

// ---- names and connections

UNIO_IN_PLACE(int, bind, (int fd, sockaddr const* at, socklen_t size)) {
  entry const e("bind(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_bind, fd, at, size));
  if (f->in_world < 0) return answer<int>(-ENOTSOCK);
  if (size > sizeof(sa_family_t) && at->sa_family == AF_UNIX)
    lend_directory_of({at->sa_data, strnlen(at->sa_data, size - sizeof(sa_family_t))});
  return answer<int>(sys::bind(f->in_world, at, size));
}

UNIO_IN_PLACE(int, listen, (int fd, int backlog)) {
  entry const e("listen(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_listen, fd, backlog));
  return answer<int>(f->in_world < 0 ? -ENOTSOCK : sys::listen(f->in_world, backlog));
}

UNIO_IN_PLACE(int, accept4, (int fd, sockaddr* from, socklen_t* size, int flags)) {
  entry const e("accept4(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_accept4, fd, from, size, flags));
  return answer<int>(accept_one(*f, fd, from, size, flags));
}
UNIO_IN_PLACE(int, accept, (int fd, sockaddr* from, socklen_t* size)) {
  entry const e("accept(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_accept, fd, from, size));
  return answer<int>(accept_one(*f, fd, from, size, 0));
}

UNIO_IN_PLACE(int, connect, (int fd, sockaddr const* to, socklen_t size)) {
  entry const e("connect(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_connect, fd, to, size));
  return answer<int>(connect_one(*f, fd, to, size));
}

UNIO_IN_PLACE(int, shutdown, (int fd, int how)) {
  entry const e("shutdown(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_shutdown, fd, how));
  return answer<int>(f->in_world < 0 ? -ENOTSOCK : sys::shutdown(f->in_world, how));
}

UNIO_IN_PLACE(int, getsockname, (int fd, sockaddr* name, socklen_t* size)) {
  entry const e("getsockname(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_getsockname, fd, name, size));
  return answer<int>(f->in_world < 0 ? -ENOTSOCK : sys::getsockname(f->in_world, name, size));
}
UNIO_IN_PLACE(int, getpeername, (int fd, sockaddr* name, socklen_t* size)) {
  entry const e("getpeername(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_getpeername, fd, name, size));
  return answer<int>(f->in_world < 0 ? -ENOTSOCK : sys::getpeername(f->in_world, name, size));
}

UNIO_IN_PLACE(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size)) {
  entry const e("getsockopt(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_getsockopt, fd, level, name, value, size));
  if (f->in_world < 0) return answer<int>(-ENOTSOCK);
  if (std::int64_t const* const t = timeout_of(*f, level, name); t != nullptr) {
    std::int64_t const ns = std::max<std::int64_t>(0, *t);
    timeval const told{.tv_sec = ns / second, .tv_usec = ns % second / 1000};
    *size = std::min(*size, static_cast<socklen_t>(sizeof told));
    std::memcpy(value, &told, *size);
    return 0;
  }
  return answer<int>(sys::getsockopt(f->in_world, level, name, value, size));
}
UNIO_IN_PLACE(int, setsockopt, (int fd, int level, int name, void const* value, socklen_t size)) {
  entry const e("setsockopt(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_setsockopt, fd, level, name, value, size));
  if (f->in_world < 0) return answer<int>(-ENOTSOCK);
  if (std::int64_t* const t = timeout_of(*f, level, name); t != nullptr) {
    timeval asked{};
    if (size < sizeof asked) return answer<int>(-EINVAL);
    std::memcpy(&asked, value, sizeof asked);
    if (asked.tv_usec < 0 || asked.tv_usec >= 1'000'000) return answer<int>(-EDOM);
    *t = asked.tv_sec < 0 ? 0 : asked.tv_sec == 0 && asked.tv_usec == 0 ? -1 : to_ns(asked);
    return 0;
  }
  return answer<int>(sys::setsockopt(f->in_world, level, name, value, size));
}

// ---- closing and duplicating

UNIO_IN_PLACE(int, close, (int fd)) {
  entry const e("close(2)", UNIO_CALLER);
  return answer<int>(e.simulates() ? close_number(fd) : raw(SYS_close, fd));
}
UNIO_ALSO(int, __close, (int fd), close, (fd))

UNIO_IN_PLACE(int, close_range, (unsigned first, unsigned last, int flags)) {
  entry const e("close_range(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_close_range, first, last, flags));
  if (first > last) return answer<int>(-EINVAL);
  rlimit most{};
  (void)::getrlimit(RLIMIT_NOFILE, &most);
  bool const marks = (static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) != 0;
  for (unsigned fd = first; fd <= last && fd < most.rlim_cur; ++fd) {
    auto const n = static_cast<int>(fd);
    if (!marks) {
      (void)close_number(n);
    } else if (find_file(n) != nullptr) {
      set_closes_on_exec(n, true);
    } else {
      (void)raw(SYS_fcntl, n, F_SETFD, FD_CLOEXEC);
    }
  }
  return 0;
}
UNIO_IN_PLACE(void, closefrom, (int first)) {
  (void)in_place_of_close_range(static_cast<unsigned>(std::max(first, 0)), ~0U, 0);
}

UNIO_IN_PLACE(int, dup, (int fd)) {
  entry const e("dup(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  return answer<int>(f == nullptr ? raw(SYS_dup, fd) : add_file(f, false));
}
UNIO_IN_PLACE(int, dup3, (int fd, int to, int flags)) {
  entry const e("dup3(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_dup3, fd, to, flags));
  return answer<int>(fd == to || (flags & ~O_CLOEXEC) != 0 ? -EINVAL : duplicate(fd, to, flags));
}
UNIO_IN_PLACE(int, dup2, (int fd, int to)) {
  entry const e("dup2(2)", UNIO_CALLER);
  if (fd == to) return raw(SYS_fcntl, fd, F_GETFD) < 0 ? answer<int>(-EBADF) : to;
  if (!e.simulates()) return answer<int>(raw(SYS_dup3, fd, to, 0));
  return answer<int>(duplicate(fd, to, 0));
}

UNIO_IN_PLACE(int, fcntl, (int fd, int command, ...)) {
  va_list list;
  va_start(list, command);
  long const argument = va_arg(list, long);
  va_end(list);
  entry const e("fcntl(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (are_several && e.simulates() && (command == F_SETLK || command == F_SETLKW || command == F_GETLK))
    return answer<int>(refuse("fcntl(2) with a process's locks, in one of several programs,"));
  if (f == nullptr) return answer<int>(raw(SYS_fcntl, fd, command, argument));
  return answer<int>(control(*f, fd, command, argument));
}
UNIO_IN_PLACE(int, fcntl64, (int fd, int command, ...)) {
  va_list list;
  va_start(list, command);
  long const argument = va_arg(list, long);
  va_end(list);
  return in_place_of_fcntl(fd, command, argument);
}

UNIO_IN_PLACE(int, ioctl, (int fd, unsigned long request, ...)) {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  entry const e("ioctl(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_ioctl, fd, request, argument));
  return answer<int>(device(*f, fd, request, argument));
}

} // namespace unio::testing::libc
