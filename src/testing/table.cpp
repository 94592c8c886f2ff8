// The table of system calls while a simulation lives: simulated descriptors and this thread's time are the
// world's, all else is for the table that was there before.

#include "sys/calls.hpp"
#include "testing/world.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <ctime>

namespace unio::testing {
namespace {

world* installed = nullptr;
sys::table const* before = nullptr;
thread_local bool this_thread_simulates = false;

bool simulated(int fd) noexcept { return installed->owns(fd); }

bool no_wait(int flags) noexcept { return (flags & RWF_NOWAIT) != 0; }

std::int64_t read_one(call c, int fd, void* data, std::size_t n) noexcept {
  iovec const v{data, n};
  return installed->read(c, fd, &v, 1, -1, false);
}

std::int64_t write_one(call c, int fd, void const* data, std::size_t n) noexcept {
  iovec const v{const_cast<void*>(data), n};
  return installed->write(c, fd, &v, 1, -1, false);
}

std::int64_t poll_ready(pollfd* fds, unsigned n) noexcept {
  std::int64_t ready = 0;
  for (unsigned i = 0; i < n; ++i) {
    pollfd& p = fds[i];
    p.revents = 0;
    if (simulated(p.fd)) {
      int events = 0;
      if ((p.events & POLLIN) != 0 && installed->is_ready(p.fd, readiness::readable)) events |= POLLIN;
      if ((p.events & POLLOUT) != 0 && installed->is_ready(p.fd, readiness::writable)) events |= POLLOUT;
      p.revents = static_cast<short>(events);
    } else if (p.fd >= 0) {
      timespec const now{};
      if (before->poll(&p, 1, &now) < 0) p.revents = POLLERR;
    }
    if (p.revents != 0) ++ready;
  }
  return ready;
}

std::int64_t poll(pollfd* fds, unsigned n, timespec const* timeout) noexcept {
  bool ours = n == 0 && this_thread_simulates && timeout != nullptr;
  for (unsigned i = 0; i < n; ++i) ours = ours || simulated(fds[i].fd);
  if (!ours) return before->poll(fds, n, timeout);
  std::int64_t const span =
      timeout == nullptr ? -1 : std::int64_t{timeout->tv_sec} * 1'000'000'000 + timeout->tv_nsec;
  // As select(2) warns, what is reported ready may not be. Only a thread that would sleep is woken so.
  bool const wakes_for_nothing =
      n != 0 && span != 0 && installed->options.spurious_wakeups && installed->random.one_in(8);
  return installed->poll(span, [&]() noexcept -> std::int64_t {
    std::int64_t const ready = poll_ready(fds, n);
    if (ready != 0 || !wakes_for_nothing) return ready;
    fds[0].revents = fds[0].events;
    return 1;
  });
}

// Entries of the table: `Ours` answers for simulated descriptors, the table that was there before for others.
template <auto Entry, auto Ours> struct divided;
template <class... A, std::int64_t (*sys::table::*Entry)(int, A...) noexcept, auto Ours>
struct divided<Entry, Ours> {
  static std::int64_t answer(int fd, A... a) noexcept {
    return simulated(fd) ? Ours(fd, a...) : (before->*Entry)(fd, a...);
  }
};
template <auto Entry, auto Ours> void divide(sys::table& t) noexcept {
  t.*Entry = divided<Entry, Ours>::answer;
}

sys::table made() noexcept {
  using sys::table;
  table t = *before;
  divide<&table::read, [](int fd, void* p, std::size_t n) { return read_one(call::read, fd, p, n); }>(t);
  divide<&table::recv, [](int fd, void* p, std::size_t n, int) { return read_one(call::recv, fd, p, n); }>(t);
  divide<&table::readv, [](int fd, iovec const* v, int n) {
    return installed->read(call::readv, fd, v, static_cast<std::size_t>(n), -1, false);
  }>(t);
  divide<&table::preadv2, [](int fd, iovec const* v, int n, std::int64_t at, int flags) {
    return installed->read(call::preadv2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  }>(t);
  divide<&table::recvmsg, [](int fd, msghdr* m, int flags) {
    if (installed->is_datagrams(fd)) {
      if ((flags & MSG_ERRQUEUE) != 0) return std::int64_t{-EAGAIN}; // nothing is ever reported
      mmsghdr one{.msg_hdr = *m, .msg_len = 0};
      std::int64_t const r = installed->receive_messages(call::recvmsg, fd, &one, 1);
      if (r == 1) *m = one.msg_hdr;
      return r == 1 ? std::int64_t{one.msg_len} : r;
    }
    m->msg_namelen = 0;
    m->msg_controllen = 0;
    m->msg_flags = 0;
    return installed->read(call::recvmsg, fd, m->msg_iov, m->msg_iovlen, -1, false);
  }>(t);
  divide<&table::write,
         [](int fd, void const* p, std::size_t n) { return write_one(call::write, fd, p, n); }>(t);
  divide<&table::send,
         [](int fd, void const* p, std::size_t n, int) { return write_one(call::send, fd, p, n); }>(t);
  divide<&table::writev, [](int fd, iovec const* v, int n) {
    return installed->write(call::writev, fd, v, static_cast<std::size_t>(n), -1, false);
  }>(t);
  divide<&table::pwritev2, [](int fd, iovec const* v, int n, std::int64_t at, int flags) {
    return installed->write(call::pwritev2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  }>(t);
  divide<&table::sendmsg, [](int fd, msghdr const* m, int) {
    if (installed->is_datagrams(fd)) {
      mmsghdr one{.msg_hdr = *m, .msg_len = 0};
      std::int64_t const r = installed->send_messages(call::sendmsg, fd, &one, 1);
      return r == 1 ? std::int64_t{one.msg_len} : r;
    }
    return installed->write(call::sendmsg, fd, m->msg_iov, m->msg_iovlen, -1, false);
  }>(t);
  divide<&table::recvmmsg, [](int fd, mmsghdr* m, unsigned n, int) {
    return installed->receive_messages(call::recvmmsg, fd, m, n);
  }>(t);
  divide<&table::sendmmsg, [](int fd, mmsghdr* m, unsigned n, int) {
    return installed->send_messages(call::sendmmsg, fd, m, n);
  }>(t);
  divide<&table::connect,
         [](int fd, sockaddr const* a, unsigned size) { return installed->connect(fd, a, size); }>(t);
  divide<&table::getsockname,
         [](int fd, sockaddr* a, unsigned* size) { return installed->name_of(fd, false, a, size); }>(t);
  divide<&table::getpeername,
         [](int fd, sockaddr* a, unsigned* size) { return installed->name_of(fd, true, a, size); }>(t);
  t.splice = [](int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n,
                unsigned flags) noexcept {
    if (!simulated(in) && !simulated(out)) return before->splice(in, in_at, out, out_at, n, flags);
    return std::int64_t{-EINVAL};
  };
  divide<&table::fsync, [](int fd) { return installed->sync(call::fsync, fd); }>(t);
  divide<&table::fdatasync, [](int fd) { return installed->sync(call::fdatasync, fd); }>(t);
  divide<&table::sync_file_range, [](int fd, std::int64_t, std::int64_t, unsigned) {
    return installed->sync(call::sync_file_range, fd);
  }>(t);
  divide<&table::accept4, [](int fd, sockaddr*, unsigned* size, int) {
    if (size != nullptr) *size = 0;
    return installed->accept(fd);
  }>(t);
  divide<&table::close, [](int fd) { return installed->close(fd); }>(t);
  divide<&table::shutdown, [](int fd, int how) { return installed->shutdown(fd, how); }>(t);
  divide<&table::getsockopt, [](int fd, int level, int name, void* v, unsigned* size) {
    return installed->get_option(fd, level, name, v, size);
  }>(t);
  divide<&table::setsockopt,
         [](int fd, int, int, void const*, unsigned) { return installed->set_option(fd); }>(t);
  divide<&table::fcntl, [](int fd, int command, long a) { return installed->fcntl(fd, command, a); }>(t);
  divide<&table::fstat, [](int fd, struct stat* s) { return installed->stat(fd, s); }>(t);
  divide<&table::ftruncate, [](int fd, std::int64_t size) { return installed->truncate(fd, size); }>(t);
  divide<&table::fallocate, [](int fd, int mode, std::int64_t at, std::int64_t n) {
    return installed->zero(fd, mode, at, n);
  }>(t);
  t.poll = poll;
  t.steady_now = []() noexcept { return this_thread_simulates ? installed->now() : before->steady_now(); };
  t.system_now = []() noexcept {
    constexpr std::int64_t year_2020 = 1'577'836'800'000'000'000;
    return this_thread_simulates ? year_2020 + installed->now() : before->system_now();
  };
  return t;
}

sys::table ours;

} // namespace

void answer_system_calls(world* w) noexcept {
  if (w != nullptr) {
    UNIO_EXPECTS(installed == nullptr, "one simulation at a time: another one exists in this process");
    installed = w;
    before = sys::current;
    ours = made();
    sys::current = &ours;
    this_thread_simulates = true;
  } else {
    UNIO_EXPECTS(this_thread_simulates && sys::current == &ours,
                 "a simulation ends on the thread that made it, after what replaced system calls later");
    this_thread_simulates = false;
    sys::current = before;
    installed = nullptr;
  }
}

} // namespace unio::testing
