// read, write, recv, send and their kin.

#include "testing/libc/transfer.hpp"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace unio::inline v0_1::testing::libc {
namespace {

std::size_t size_of(iovec const* v, std::size_t n) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i != n; ++i) bytes += v[i].iov_len;
  return bytes;
}

// What is left after the first `done` bytes.
std::vector<iovec> rest_of(iovec const* v, std::size_t n, std::size_t done) {
  std::vector<iovec> rest;
  for (std::size_t i = 0; i != n; ++i) {
    std::size_t const skipped = std::min(done, v[i].iov_len);
    done -= skipped;
    if (skipped != v[i].iov_len)
      rest.push_back({static_cast<std::byte*>(v[i].iov_base) + skipped, v[i].iov_len - skipped});
  }
  return rest;
}

// A blocking write ends when all is written; so does a read that waits for all. `move(pieces, count)`.
template <class Move> std::int64_t all_of(iovec const* v, std::size_t n, bool needs_all, Move move) noexcept {
  std::int64_t const first = move(v, n);
  if (!needs_all || first <= 0) return first;
  std::size_t const whole = size_of(v, n);
  auto done = static_cast<std::size_t>(first);
  while (done < whole) {
    std::vector<iovec> const rest = rest_of(v, n, done);
    std::int64_t const r = move(rest.data(), rest.size());
    if (r <= 0) break; // what has been moved is told first
    done += static_cast<std::size_t>(r);
  }
  return static_cast<std::int64_t>(done);
}

bool is_file(open_file const& f) noexcept {
  struct stat s;
  return answering_world()->poll_events(f.in_world) == (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM) &&
         sys::fstat(f.in_world, &s) == 0 && S_ISREG(s.st_mode);
}

// As signal(7) says of EPIPE.
void tell_of_broken_pipe(std::int64_t r, int flags) noexcept {
  if (r == -EPIPE && (flags & MSG_NOSIGNAL) == 0)
    (void)raw(SYS_tgkill, static_cast<int>(raw(SYS_getpid)), static_cast<int>(raw(SYS_gettid)), SIGPIPE);
}

bool waits(open_file const& f, int flags) noexcept {
  return !f.is_nonblocking && (flags & MSG_DONTWAIT) == 0;
}

// AF_UNSPEC: no socket.
int family_of(open_file const& f) noexcept {
  sockaddr own{};
  unsigned n = sizeof own;
  return sys::getsockname(f.in_world, &own, &n) < 0 ? AF_UNSPEC : own.sa_family;
}

std::int64_t one_message(open_file const& f, msghdr& m, int flags) noexcept {
  if ((flags & MSG_TRUNC) != 0) { // the length of the datagram, whatever there is room for
    alone const inside;
    std::int64_t const whole = answering_world()->waiting_bytes(f.in_world);
    std::int64_t const r = one_message(f, m, flags & ~MSG_TRUNC);
    return r < 0 ? r : whole;
  }
  if ((flags & MSG_PEEK) != 0) {
    alone const inside;
    return answering_world()->peek(f.in_world, m);
  }
  return sys::recvmsg(f.in_world, &m, 0);
}

} // namespace

std::int64_t read_file(open_file& f, int fd, iovec const* v, std::size_t n, std::int64_t at) noexcept {
  if (f.in_world < 0) return -EINVAL;
  if (at < 0 && answering_world()->is_datagrams(f.in_world)) {
    if (size_of(v, n) == 0) return 0; // sock_read_iter(): nothing is received
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(v);
    m.msg_iovlen = n;
    return receive(f, fd, m, 0);
  }
  std::int64_t const done =
      perform(f, fd, POLLIN, f.receive_timeout, waits(f, 0), [&]() noexcept -> std::int64_t {
        if (at >= 0) return sys::preadv2(f.in_world, v, static_cast<int>(n), at, 0);
        if (n == 1) return sys::read(f.in_world, v->iov_base, v->iov_len);
        return sys::readv(f.in_world, v, static_cast<int>(n));
      });
  if (done > 0 && static_cast<std::size_t>(done) < size_of(v, n)) was_blocked(f.blocked_reads);
  return done;
}

std::int64_t write_file(open_file& f, int fd, iovec const* v, std::size_t n, std::int64_t at) noexcept {
  if (f.in_world < 0) return -EINVAL;
  if (at < 0 && answering_world()->is_datagrams(f.in_world)) {
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(v);
    m.msg_iovlen = n;
    return send(f, fd, m, 0);
  }
  bool const needs_all = waits(f, 0) && !is_file(f);
  std::int64_t const done = all_of(v, n, needs_all, [&](iovec const* p, std::size_t count) noexcept {
    return perform(f, fd, POLLOUT, f.send_timeout, waits(f, 0), [&]() noexcept -> std::int64_t {
      if (at >= 0) return sys::pwritev2(f.in_world, p, static_cast<int>(count), at, 0);
      if (count == 1) return sys::write(f.in_world, p->iov_base, p->iov_len);
      return sys::writev(f.in_world, p, static_cast<int>(count));
    });
  });
  if (done >= 0 && static_cast<std::size_t>(done) < size_of(v, n)) was_blocked(f.blocked_writes);
  tell_of_broken_pipe(done, 0);
  return done;
}

std::int64_t receive(open_file& f, int fd, msghdr& m, int flags) noexcept {
  if (f.in_world < 0) return -ENOTSOCK;
  if (m.msg_iovlen > IOV_MAX) return -EMSGSIZE;
  if ((flags & MSG_OOB) != 0) return -EINVAL;      // there is none
  if ((flags & MSG_ERRQUEUE) != 0) return -EAGAIN; // nothing is ever reported
  bool const datagrams = answering_world()->is_datagrams(f.in_world);
  if ((flags & MSG_TRUNC) != 0 && !datagrams) return refuse("receiving from a stream with MSG_TRUNC");
  bool const needs_all =
      (flags & MSG_WAITALL) != 0 && waits(f, flags) && !datagrams && (flags & MSG_PEEK) == 0;
  iovec const* const v = m.msg_iov;
  std::size_t const n = m.msg_iovlen;
  std::int64_t const done = all_of(v, n, needs_all, [&](iovec const* p, std::size_t count) noexcept {
    return perform(f, fd, POLLIN, f.receive_timeout, waits(f, flags), [&]() noexcept -> std::int64_t {
      msghdr one = m;
      one.msg_iov = const_cast<iovec*>(p);
      one.msg_iovlen = count;
      std::int64_t const r = one_message(f, one, flags);
      if (r < 0) return r;
      m.msg_namelen = one.msg_namelen;
      m.msg_controllen = one.msg_controllen;
      m.msg_flags = one.msg_flags;
      return r;
    });
  });
  bool const peeks_all =
      (flags & MSG_PEEK) != 0 && (flags & MSG_WAITALL) != 0 && waits(f, flags) && !datagrams;
  if (peeks_all && done > 0 && static_cast<std::size_t>(done) < size_of(v, n) &&
      (events_of(f) & POLLRDHUP) == 0)
    return refuse("waiting with MSG_PEEK and MSG_WAITALL for more than has arrived");
  // On a stream that says that nothing is left (epoll(7)): what is left has arrived since.
  if (!datagrams && done > 0 && static_cast<std::size_t>(done) < size_of(v, n)) was_blocked(f.blocked_reads);
  return done;
}

std::int64_t send(open_file& f, int fd, msghdr const& m, int flags) noexcept {
  if (f.in_world < 0) return -ENOTSOCK;
  if (m.msg_iovlen > IOV_MAX) return -EMSGSIZE;
  if ((flags & MSG_OOB) != 0) return refuse("sending with MSG_OOB");
  if ((flags & MSG_ZEROCOPY) != 0) return refuse("sending with MSG_ZEROCOPY");
  bool const datagrams = answering_world()->is_datagrams(f.in_world);
  if (datagrams && (flags & MSG_MORE) != 0) return refuse("sending a part of a datagram (MSG_MORE)");
  if (!datagrams && m.msg_name != nullptr && m.msg_namelen != 0 && family_of(f) == AF_UNIX) {
    sockaddr peer{};
    unsigned n = sizeof peer;
    return sys::getpeername(f.in_world, &peer, &n) < 0 ? -EOPNOTSUPP : -EISCONN;
  }
  if (m.msg_controllen != 0 && !datagrams) return refuse("sendmsg(2) with control messages on a stream");
  bool const needs_all = waits(f, flags) && !datagrams;
  std::int64_t const done =
      all_of(m.msg_iov, m.msg_iovlen, needs_all, [&](iovec const* p, std::size_t count) noexcept {
        return perform(f, fd, POLLOUT, f.send_timeout, waits(f, flags), [&]() noexcept -> std::int64_t {
          msghdr one = m;
          one.msg_iov = const_cast<iovec*>(p);
          one.msg_iovlen = count;
          if (!datagrams) one.msg_namelen = 0;
          return sys::sendmsg(f.in_world, &one, MSG_NOSIGNAL);
        });
      });
  if (done >= 0 && static_cast<std::size_t>(done) < size_of(m.msg_iov, m.msg_iovlen))
    was_blocked(f.blocked_writes);
  tell_of_broken_pipe(done, flags);
  return done;
}

namespace {

// mmsghdr by mmsghdr; the first error is told only if nothing was moved.
template <class Move> std::int64_t messages(mmsghdr* all, unsigned n, Move move) noexcept {
  for (unsigned i = 0; i != n; ++i) {
    std::int64_t const r = move(all[i].msg_hdr, i);
    if (r < 0) return i == 0 ? r : std::int64_t{i};
    all[i].msg_len = static_cast<unsigned>(r);
  }
  return n;
}

msghdr of_one(iovec& v, void* name, socklen_t const* size) noexcept {
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  m.msg_name = name;
  m.msg_namelen = name != nullptr && size != nullptr ? *size : 0;
  return m;
}

} // namespace

// ---- what takes the place of the C library's

UNIO_IN_PLACE(ssize_t, read, (int fd, void* data, std::size_t n)) {
  entry const e("read(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_read, fd, data, n));
  iovec const v{data, n};
  return answer(read_file(*f, fd, &v, 1, -1));
}
UNIO_ALSO(ssize_t, __read_chk, (int fd, void* data, std::size_t n, std::size_t), read, (fd, data, n))
UNIO_ALSO(ssize_t, __read, (int fd, void* data, std::size_t n), read, (fd, data, n))

UNIO_IN_PLACE(ssize_t, write, (int fd, void const* data, std::size_t n)) {
  entry const e("write(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_write, fd, data, n));
  iovec const v{const_cast<void*>(data), n};
  return answer(write_file(*f, fd, &v, 1, -1));
}
UNIO_ALSO(ssize_t, __write, (int fd, void const* data, std::size_t n), write, (fd, data, n))

UNIO_IN_PLACE(ssize_t, readv, (int fd, iovec const* v, int n)) {
  entry const e("readv(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_readv, fd, v, n));
  if (n < 0 || n > IOV_MAX) return answer(-EINVAL);
  return answer(read_file(*f, fd, v, static_cast<std::size_t>(n), -1));
}
UNIO_IN_PLACE(ssize_t, writev, (int fd, iovec const* v, int n)) {
  entry const e("writev(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_writev, fd, v, n));
  if (n < 0 || n > IOV_MAX) return answer(-EINVAL);
  return answer(write_file(*f, fd, v, static_cast<std::size_t>(n), -1));
}

UNIO_IN_PLACE(ssize_t, pread, (int fd, void* data, std::size_t n, off_t at)) {
  entry const e("pread(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_pread64, fd, data, n, at));
  iovec const v{data, n};
  return answer(at < 0 ? -EINVAL : read_file(*f, fd, &v, 1, at));
}
UNIO_ALSO(ssize_t, pread64, (int fd, void* data, std::size_t n, off_t at), pread, (fd, data, n, at))
UNIO_ALSO(ssize_t, __pread_chk, (int fd, void* data, std::size_t n, off_t at, std::size_t), pread,
          (fd, data, n, at))
UNIO_ALSO(ssize_t, __pread64_chk, (int fd, void* data, std::size_t n, off_t at, std::size_t), pread,
          (fd, data, n, at))

UNIO_IN_PLACE(ssize_t, pwrite, (int fd, void const* data, std::size_t n, off_t at)) {
  entry const e("pwrite(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_pwrite64, fd, data, n, at));
  iovec const v{const_cast<void*>(data), n};
  return answer(at < 0 ? -EINVAL : write_file(*f, fd, &v, 1, at));
}
UNIO_ALSO(ssize_t, pwrite64, (int fd, void const* data, std::size_t n, off_t at), pwrite, (fd, data, n, at))

UNIO_IN_PLACE(ssize_t, preadv, (int fd, iovec const* v, int n, off_t at)) {
  entry const e("preadv(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_preadv, fd, v, n, at, 0L));
  return answer(at < 0 || n < 0 || n > IOV_MAX ? -EINVAL
                                               : read_file(*f, fd, v, static_cast<std::size_t>(n), at));
}
UNIO_ALSO(ssize_t, preadv64, (int fd, iovec const* v, int n, off_t at), preadv, (fd, v, n, at))
UNIO_IN_PLACE(ssize_t, pwritev, (int fd, iovec const* v, int n, off_t at)) {
  entry const e("pwritev(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_pwritev, fd, v, n, at, 0L));
  return answer(at < 0 || n < 0 || n > IOV_MAX ? -EINVAL
                                               : write_file(*f, fd, v, static_cast<std::size_t>(n), at));
}
UNIO_ALSO(ssize_t, pwritev64, (int fd, iovec const* v, int n, off_t at), pwritev, (fd, v, n, at))

// As before Linux 4.14, of what is simulated: flags for one call are none of it. At -1: where the file
// stands.
UNIO_IN_PLACE(ssize_t, preadv2, (int fd, iovec const* v, int n, off_t at, int flags)) {
  entry const e("preadv2(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_preadv2, fd, v, n, at, 0L, flags));
  if (flags != 0) return answer(-EOPNOTSUPP);
  return answer(at < -1 || n < 0 || n > IOV_MAX ? -EINVAL
                                                : read_file(*f, fd, v, static_cast<std::size_t>(n), at));
}
UNIO_ALSO(ssize_t, preadv64v2, (int fd, iovec const* v, int n, off_t at, int flags), preadv2,
          (fd, v, n, at, flags))
UNIO_IN_PLACE(ssize_t, pwritev2, (int fd, iovec const* v, int n, off_t at, int flags)) {
  entry const e("pwritev2(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_pwritev2, fd, v, n, at, 0L, flags));
  if (flags != 0) return answer(-EOPNOTSUPP);
  return answer(at < -1 || n < 0 || n > IOV_MAX ? -EINVAL
                                                : write_file(*f, fd, v, static_cast<std::size_t>(n), at));
}
UNIO_ALSO(ssize_t, pwritev64v2, (int fd, iovec const* v, int n, off_t at, int flags), pwritev2,
          (fd, v, n, at, flags))

// The C library would write to the number by itself.
UNIO_IN_PLACE(int, vdprintf, (int fd, char const* format, va_list list)) {
  char* text = nullptr;
  int const n = ::vasprintf(&text, format, list);
  for (int done = 0; done < n;) {
    ssize_t const r = in_place_of_write(fd, text + done, static_cast<std::size_t>(n - done));
    if (r < 0 && errno != EINTR) {
      std::free(text);
      return -1;
    }
    done += static_cast<int>(std::max<ssize_t>(r, 0));
  }
  if (n >= 0) std::free(text);
  return n;
}
UNIO_IN_PLACE(int, dprintf, (int fd, char const* format, ...)) {
  va_list list;
  va_start(list, format);
  int const n = in_place_of_vdprintf(fd, format, list);
  va_end(list);
  return n;
}
UNIO_ALSO(int, __vdprintf_chk, (int fd, int, char const* format, va_list list), vdprintf, (fd, format, list))
UNIO_IN_PLACE(int, __dprintf_chk, (int fd, int, char const* format, ...)) {
  va_list list;
  va_start(list, format);
  int const n = in_place_of_vdprintf(fd, format, list);
  va_end(list);
  return n;
}

UNIO_IN_PLACE(ssize_t, recvfrom,
              (int fd, void* data, std::size_t n, int flags, sockaddr* from, socklen_t* size)) {
  entry const e("recvfrom(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_recvfrom, fd, data, n, flags, from, size));
  iovec v{data, n};
  msghdr m = of_one(v, from, size);
  std::int64_t r = receive(*f, fd, m, flags);
  if (r >= 0 && from != nullptr && size != nullptr) *size = m.msg_namelen;
  return answer(r);
}
UNIO_ALSO(ssize_t, __recvfrom_chk,
          (int fd, void* data, std::size_t n, std::size_t, int flags, sockaddr* from, socklen_t* size),
          recvfrom, (fd, data, n, flags, from, size))

UNIO_IN_PLACE(ssize_t, recv, (int fd, void* data, std::size_t n, int flags)) {
  entry const e("recv(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_recvfrom, fd, data, n, flags, nullptr, nullptr));
  iovec v{data, n};
  msghdr m = of_one(v, nullptr, nullptr);
  return answer(receive(*f, fd, m, flags));
}
UNIO_ALSO(ssize_t, __recv_chk, (int fd, void* data, std::size_t n, std::size_t, int flags), recv,
          (fd, data, n, flags))

UNIO_IN_PLACE(ssize_t, recvmsg, (int fd, msghdr* m, int flags)) {
  entry const e("recvmsg(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_recvmsg, fd, m, flags));
  return answer(receive(*f, fd, *m, flags));
}

UNIO_IN_PLACE(int, recvmmsg, (int fd, mmsghdr* all, unsigned n, int flags, timespec* timeout)) {
  entry const e("recvmmsg(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_recvmmsg, fd, all, n, flags, timeout));
  if (timeout != nullptr && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= second))
    return answer<int>(-EINVAL);
  // Only after each datagram is the time looked at: recvmmsg(2), BUGS.
  std::int64_t const until = timeout != nullptr ? answering_world()->moment(to_ns(*timeout)) : 0;
  int const r = answer<int>(messages(all, n, [&](msghdr& m, unsigned i) noexcept -> std::int64_t {
    if (timeout != nullptr && i != 0 && answering_world()->now() >= until) return -EAGAIN;
    bool const waits_no_more = (flags & MSG_WAITFORONE) != 0 && i != 0;
    return receive(*f, fd, m, (flags & ~MSG_WAITFORONE) | (waits_no_more ? MSG_DONTWAIT : 0));
  }));
  if (timeout != nullptr && r >= 0)
    *timeout = to_timespec(std::max<std::int64_t>(0, until - answering_world()->now()));
  return r;
}

UNIO_IN_PLACE(ssize_t, sendto,
              (int fd, void const* data, std::size_t n, int flags, sockaddr const* to, socklen_t size)) {
  entry const e("sendto(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_sendto, fd, data, n, flags, to, size));
  iovec v{const_cast<void*>(data), n};
  msghdr const m = of_one(v, const_cast<sockaddr*>(to), &size);
  if (to != nullptr && size == 0 && answering_world()->is_datagrams(f->in_world)) return answer(-EINVAL);
  return answer(send(*f, fd, m, flags));
}

UNIO_IN_PLACE(ssize_t, send, (int fd, void const* data, std::size_t n, int flags)) {
  entry const e("send(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_sendto, fd, data, n, flags, nullptr, 0));
  iovec v{const_cast<void*>(data), n};
  msghdr const m = of_one(v, nullptr, nullptr);
  return answer(libc::send(*f, fd, m, flags));
}

UNIO_IN_PLACE(ssize_t, sendmsg, (int fd, msghdr const* m, int flags)) {
  entry const e("sendmsg(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer(raw(SYS_sendmsg, fd, m, flags));
  return answer(libc::send(*f, fd, *m, flags));
}

UNIO_IN_PLACE(int, sendmmsg, (int fd, mmsghdr* all, unsigned n, int flags)) {
  entry const e("sendmmsg(2)", UNIO_CALLER);
  file_pointer const f = e.file(fd);
  if (f == nullptr) return answer<int>(raw(SYS_sendmmsg, fd, all, n, flags));
  return answer<int>(
      messages(all, n, [&](msghdr const& m, unsigned) noexcept { return libc::send(*f, fd, m, flags); }));
}

// By the calls above: simulated descriptors have no pages to share.
UNIO_IN_PLACE(ssize_t, sendfile, (int out, int in, off_t* at, std::size_t n)) {
  entry const e("sendfile(2)", UNIO_CALLER);
  file_pointer const to = e.file(out), from = e.file(in);
  if (to == nullptr && from == nullptr) return answer(raw(SYS_sendfile, out, in, at, n));
  if (from != nullptr && (from->in_world < 0 || sys::lseek(from->in_world, 0, SEEK_CUR) < 0))
    return answer(-EINVAL); // a pipe, a socket
  std::byte bytes[16384];
  iovec v{bytes, std::min(n, sizeof bytes)};
  std::int64_t r = 0;
  if (from != nullptr) {
    r = read_file(*from, in, &v, 1, at != nullptr ? *at : -1);
  } else {
    r = at != nullptr ? raw(SYS_pread64, in, bytes, v.iov_len, *at) : raw(SYS_read, in, bytes, v.iov_len);
  }
  if (r <= 0) return answer(r);
  v.iov_len = static_cast<std::size_t>(r);
  std::int64_t const done =
      to != nullptr ? write_file(*to, out, &v, 1, -1) : raw(SYS_write, out, bytes, v.iov_len);
  std::int64_t const moved = std::max<std::int64_t>(0, done);
  if (at != nullptr) {
    *at += moved;
  } else if (moved != r && from != nullptr) {
    (void)sys::lseek(from->in_world, moved - r, SEEK_CUR);
  } else if (moved != r) {
    (void)raw(SYS_lseek, in, moved - r, SEEK_CUR);
  }
  return answer(done);
}
UNIO_ALSO(ssize_t, sendfile64, (int out, int in, off_t* at, std::size_t n), sendfile, (out, in, at, n))

UNIO_IN_PLACE(int, eventfd_read, (int fd, std::uint64_t* value)) {
  return in_place_of_read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}
UNIO_IN_PLACE(int, eventfd_write, (int fd, std::uint64_t value)) {
  return in_place_of_write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

} // namespace unio::testing::libc
