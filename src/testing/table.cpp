// The table of system calls while a simulation lives: simulated descriptors and this thread's time are the
// world's, all else is for the table that was there before.

#include "sys/calls.hpp"
#include "testing/world.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace unio::testing {
namespace {

world* installed = nullptr;
sys::table const* before = nullptr;
thread_local bool this_thread_simulates = false;

bool simulated(int fd) noexcept { return installed->owns(fd); }

bool no_wait(int flags) noexcept { return (flags & RWF_NOWAIT) != 0; }

iovec piece(void const* data, std::size_t n) noexcept { return {const_cast<void*>(data), n}; }

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
  // As select(2) warns: what is reported ready may not be. Only who would sleep is woken for nothing.
  bool const wakes_for_nothing =
      n != 0 && span != 0 && installed->options.spurious_wakeups && installed->random.one_in(8);
  return installed->poll(span, [&]() noexcept -> std::int64_t {
    std::int64_t const ready = poll_ready(fds, n);
    if (ready != 0 || !wakes_for_nothing) return ready;
    fds[0].revents = fds[0].events;
    return 1;
  });
}

sys::table made() noexcept {
  sys::table t = *before;
  t.read = [](int fd, void* data, std::size_t n) noexcept {
    if (!simulated(fd)) return before->read(fd, data, n);
    iovec const v = piece(data, n);
    return installed->read(call::read, fd, &v, 1, -1, false);
  };
  t.readv = [](int fd, iovec const* v, int n) noexcept {
    if (!simulated(fd)) return before->readv(fd, v, n);
    return installed->read(call::readv, fd, v, static_cast<std::size_t>(n), -1, false);
  };
  t.preadv2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    if (!simulated(fd)) return before->preadv2(fd, v, n, at, flags);
    return installed->read(call::preadv2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  };
  t.recv = [](int fd, void* data, std::size_t n, int flags) noexcept {
    if (!simulated(fd)) return before->recv(fd, data, n, flags);
    iovec const v = piece(data, n);
    return installed->read(call::recv, fd, &v, 1, -1, false);
  };
  t.recvmsg = [](int fd, msghdr* m, int flags) noexcept {
    if (!simulated(fd)) return before->recvmsg(fd, m, flags);
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
  };
  t.write = [](int fd, void const* data, std::size_t n) noexcept {
    if (!simulated(fd)) return before->write(fd, data, n);
    iovec const v = piece(data, n);
    return installed->write(call::write, fd, &v, 1, -1, false);
  };
  t.writev = [](int fd, iovec const* v, int n) noexcept {
    if (!simulated(fd)) return before->writev(fd, v, n);
    return installed->write(call::writev, fd, v, static_cast<std::size_t>(n), -1, false);
  };
  t.pwritev2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    if (!simulated(fd)) return before->pwritev2(fd, v, n, at, flags);
    return installed->write(call::pwritev2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  };
  t.send = [](int fd, void const* data, std::size_t n, int flags) noexcept {
    if (!simulated(fd)) return before->send(fd, data, n, flags);
    iovec const v = piece(data, n);
    return installed->write(call::send, fd, &v, 1, -1, false);
  };
  t.sendmsg = [](int fd, msghdr const* m, int flags) noexcept {
    if (!simulated(fd)) return before->sendmsg(fd, m, flags);
    if (installed->is_datagrams(fd)) {
      mmsghdr one{.msg_hdr = *m, .msg_len = 0};
      std::int64_t const r = installed->send_messages(call::sendmsg, fd, &one, 1);
      return r == 1 ? std::int64_t{one.msg_len} : r;
    }
    return installed->write(call::sendmsg, fd, m->msg_iov, m->msg_iovlen, -1, false);
  };
  t.recvmmsg = [](int fd, mmsghdr* m, unsigned n, int flags) noexcept {
    return simulated(fd) ? installed->receive_messages(call::recvmmsg, fd, m, n)
                         : before->recvmmsg(fd, m, n, flags);
  };
  t.sendmmsg = [](int fd, mmsghdr* m, unsigned n, int flags) noexcept {
    return simulated(fd) ? installed->send_messages(call::sendmmsg, fd, m, n)
                         : before->sendmmsg(fd, m, n, flags);
  };
  t.connect = [](int fd, sockaddr const* a, unsigned size) noexcept {
    return simulated(fd) ? installed->connect(fd, a, size) : before->connect(fd, a, size);
  };
  t.getsockname = [](int fd, sockaddr* a, unsigned* size) noexcept {
    return simulated(fd) ? installed->name_of(fd, false, a, size) : before->getsockname(fd, a, size);
  };
  t.getpeername = [](int fd, sockaddr* a, unsigned* size) noexcept {
    return simulated(fd) ? installed->name_of(fd, true, a, size) : before->getpeername(fd, a, size);
  };
  t.splice = [](int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n,
                unsigned flags) noexcept {
    if (!simulated(in) && !simulated(out)) return before->splice(in, in_at, out, out_at, n, flags);
    return std::int64_t{-EINVAL};
  };
  t.fsync = [](int fd) noexcept {
    return simulated(fd) ? installed->sync(call::fsync, fd) : before->fsync(fd);
  };
  t.fdatasync = [](int fd) noexcept {
    return simulated(fd) ? installed->sync(call::fdatasync, fd) : before->fdatasync(fd);
  };
  t.sync_file_range = [](int fd, std::int64_t at, std::int64_t n, unsigned flags) noexcept {
    if (!simulated(fd)) return before->sync_file_range(fd, at, n, flags);
    return installed->sync(call::sync_file_range, fd);
  };
  t.accept4 = [](int fd, sockaddr* a, unsigned* size, int flags) noexcept {
    if (!simulated(fd)) return before->accept4(fd, a, size, flags);
    if (size != nullptr) *size = 0;
    return installed->accept(fd);
  };
  t.close = [](int fd) noexcept { return simulated(fd) ? installed->close(fd) : before->close(fd); };
  t.shutdown = [](int fd, int how) noexcept {
    return simulated(fd) ? installed->shutdown(fd, how) : before->shutdown(fd, how);
  };
  t.getsockopt = [](int fd, int level, int name, void* v, unsigned* size) noexcept {
    if (!simulated(fd)) return before->getsockopt(fd, level, name, v, size);
    return installed->get_option(fd, level, name, v, size);
  };
  t.setsockopt = [](int fd, int level, int name, void const* v, unsigned size) noexcept {
    if (!simulated(fd)) return before->setsockopt(fd, level, name, v, size);
    return installed->set_option(fd);
  };
  t.fcntl = [](int fd, int command, long argument) noexcept {
    return simulated(fd) ? installed->fcntl(fd, command, argument) : before->fcntl(fd, command, argument);
  };
  t.fstat = [](int fd, struct stat* s) noexcept {
    return simulated(fd) ? installed->stat(fd, s) : before->fstat(fd, s);
  };
  t.ftruncate = [](int fd, std::int64_t size) noexcept {
    return simulated(fd) ? installed->truncate(fd, size) : before->ftruncate(fd, size);
  };
  t.fallocate = [](int fd, int mode, std::int64_t at, std::int64_t n) noexcept {
    return simulated(fd) ? installed->zero(fd, mode, at, n) : before->fallocate(fd, mode, at, n);
  };
  t.poll = poll;
  t.steady_now = []() noexcept { return this_thread_simulates ? installed->now() : before->steady_now(); };
  t.system_now = []() noexcept {
    constexpr std::int64_t year_2020 = 1'577'836'800'000'000'000;
    return this_thread_simulates ? year_2020 + installed->now() : before->system_now();
  };
  return t;
}

sys::table table;

} // namespace

void install(world* w) noexcept {
  if (w != nullptr) {
    UNIO_EXPECTS(installed == nullptr, "one simulation at a time: another one exists in this process");
    installed = w;
    before = sys::current;
    table = made();
    sys::current = &table;
    this_thread_simulates = true;
  } else {
    UNIO_EXPECTS(this_thread_simulates && sys::current == &table,
                 "a simulation ends on the thread that made it, after what replaced system calls later");
    this_thread_simulates = false;
    sys::current = before;
    installed = nullptr;
  }
}

} // namespace unio::testing
