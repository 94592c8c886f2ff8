// What programs ask of a simulated system that are not unio's: all that poll(2) reports, edges, timers,
// looking at bytes that stay.

#include "testing/addresses.hpp"
#include "testing/ends.hpp"
#include "testing/world.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>

namespace unio::inline v0_1::testing {

std::shared_ptr<description> world::share(description const* d) const noexcept {
  auto const found = std::find_if(table_.begin(), table_.end(), [d](auto const& x) { return x.get() == d; });
  return found != table_.end() ? *found : nullptr;
}

// ---- timers: nothing more is expected of one that has expired until it was read

std::int64_t world::make_timer() noexcept {
  std::int64_t const fd = make_event(0, false);
  if (fd >= 0) find(static_cast<int>(fd))->is_timer = true;
  return fd;
}

void world::expect_timer(std::shared_ptr<description> const& d) noexcept {
  if (d == nullptr || d->due == 0) return;
  if (d->due <= now_) {
    d->count = 1;
    ++d->news;
    return;
  }
  later(d->due, [this, weak = std::weak_ptr(d), n = d->armed] {
    std::shared_ptr<description> const timer = weak.lock();
    if (timer == nullptr || timer->armed != n) return;
    timer->count = 1;
    ++timer->news;
    note("timer", 0, 0);
  });
}

std::int64_t world::arm_timer(int fd, std::int64_t due, std::int64_t interval) noexcept {
  std::shared_ptr<description> const d = share(fd);
  if (d == nullptr || !d->is_timer) return -EINVAL;
  d->due = due;
  d->interval = interval;
  d->count = 0;
  ++d->armed;
  note("timerfd_settime", fd - first_descriptor, due);
  expect_timer(d);
  return 0;
}

bool world::is_timer(int fd) const noexcept {
  description const* const d = find(fd);
  return d != nullptr && d->is_timer;
}

void world::timer_of(int fd, std::int64_t& due, std::int64_t& interval) const noexcept {
  description const* const d = find(fd);
  due = interval = 0;
  if (d == nullptr || d->due == 0) return;
  interval = d->interval;
  due = d->due;
  if (due <= now_) due = interval == 0 ? 0 : due + ((now_ - due) / interval + 1) * interval;
}

// ---- looking

std::int64_t world::peek(int fd, msghdr& m) noexcept {
  description* const d = find(fd);
  if (d == nullptr) return leave(call::recvmsg, fd, -EBADF);
  if (d->kind == thing::datagrams) {
    std::vector<datagram> const before = d->arrived;
    mmsghdr one{.msg_hdr = m, .msg_len = 0};
    std::int64_t const r = receive_messages(call::recvmsg, fd, &one, 1);
    d->arrived = before;
    if (r == 1) m = one.msg_hdr;
    return r == 1 ? std::int64_t{one.msg_len} : r;
  }
  if (d->in == nullptr || d->in->size() == 0) // no bytes: what a read says, and an error once (sock_error())
    return read(call::recvmsg, fd, m.msg_iov, m.msg_iovlen, -1, false);
  if (int const e = enter(call::recvmsg, fd); e != 0) return e;
  std::vector<std::byte> all(d->in->size());
  d->in->look(all.data(), all.size());
  std::size_t done = 0;
  for (std::size_t i = 0; i != m.msg_iovlen && done != all.size(); ++i) {
    std::size_t const n = std::min(m.msg_iov[i].iov_len, all.size() - done);
    std::copy_n(all.data() + done, n, static_cast<std::byte*>(m.msg_iov[i].iov_base));
    done += n;
  }
  m.msg_namelen = 0;
  m.msg_controllen = 0;
  m.msg_flags = 0;
  return leave(call::recvmsg, fd, static_cast<std::int64_t>(done));
}

std::int64_t world::waiting_bytes(int fd) const noexcept {
  description const* const d = find(fd);
  if (d == nullptr) return -EBADF;
  if (d->kind == thing::datagrams)
    return d->arrived.empty() ? 0 : static_cast<std::int64_t>(d->arrived.front().bytes.size());
  if (d->kind == thing::listener) return -EINVAL;
  if (d->kind == thing::event) return -ENOTTY;
  if (d->kind == thing::pipe) return static_cast<std::int64_t>((d->in != nullptr ? d->in : d->out)->size());
  if (d->kind == thing::file)
    return std::max<std::int64_t>(
        0, static_cast<std::int64_t>(d->file->bytes.size()) - static_cast<std::int64_t>(d->position));
  return d->in != nullptr ? static_cast<std::int64_t>(d->in->size()) : 0;
}

short world::poll_events(int fd) const noexcept {
  description const* const d = find(fd);
  if (d == nullptr) return POLLNVAL;
  int events = 0;
  if (d->kind == thing::socket && d->in == nullptr) {
    if (d->is_connecting) return 0;
    events = POLLOUT | POLLWRNORM | POLLHUP;
    if (d->was_refused) events |= POLLIN | POLLRDNORM | POLLRDHUP;
    if (d->failure != 0) events |= POLLERR;
    return static_cast<short>(events);
  }
  if (d->kind == thing::datagrams) {
    events = POLLOUT | POLLWRNORM;
    if (!d->arrived.empty()) events |= POLLIN | POLLRDNORM;
    if (d->failure != 0) events |= POLLERR;
    return static_cast<short>(events);
  }
  if (is_ready(fd, readiness::readable)) events |= POLLIN | POLLRDNORM;
  if (is_ready(fd, readiness::writable) && d->kind != thing::listener) events |= POLLOUT | POLLWRNORM;
  if (d->kind == thing::event) events &= ~(POLLRDNORM | POLLWRNORM); // eventfd_poll(), timerfd_poll()
  if (d->kind == thing::pipe) {
    if (d->in != nullptr && d->in->writers == 0) {
      events |= POLLHUP;
      if (d->in->size() == 0) events &= ~(POLLIN | POLLRDNORM);
    }
    if (d->out != nullptr && d->out->readers == 0) events |= POLLERR;
    if (d->in == nullptr) events &= ~(POLLIN | POLLRDNORM);
  } else if (d->kind == thing::socket) {
    channel const& in = *d->in;
    channel const& out = *d->out;
    bool const hears_no_more =
        d->reads_no_more || ((in.writers < 2 || in.readers < 2) && in.under_way == 0 && in.ends_at <= now_);
    bool const says_no_more = was_shut(out) || (d->line == nullptr && out.readers < 2);
    if (hears_no_more) events |= POLLRDHUP;
    if ((hears_no_more && says_no_more) || is_over(*d, now_)) events |= POLLHUP;
    if (hears_no_more && in.reset) events |= POLLERR | POLLHUP;
    if (out.refused) events |= POLLERR;
  }
  return static_cast<short>(events);
}

std::uint64_t world::edges(int fd) const noexcept {
  description const* const d = find(fd);
  if (d == nullptr) return 0;
  std::uint64_t n = d->news;
  if (d->in != nullptr) n += 1 + d->in->arrived;
  if ((poll_events(fd) & (POLLRDHUP | POLLHUP | POLLERR)) != 0) n += std::uint64_t{1} << 62;
  n += d->changes << 48;
  return n;
}

std::string world::name_for_people(int fd) const {
  description const* const d = find(fd);
  if (d == nullptr) return "nothing";
  auto const named = [](endpoint const& e) {
    return e.family() == address_family::unspecified ? std::string("nowhere") : to_string(e);
  };
  switch (d->kind) {
    case thing::pipe:
      return d->in != nullptr ? "a pipe's reading end" : "a pipe's writing end";
    case thing::file:
      return d->file_node != nullptr ? "the file " + d->file_node->name : "a file";
    case thing::event:
      return d->is_timer ? "a timer" : "an eventfd";
    case thing::listener:
      return "listening at " + named(d->name);
    case thing::datagrams:
      return "UDP " + named(d->name);
    case thing::socket:
      if (d->family == 0) return "a socket pair";
      return (is_inet(d->peer) ? "TCP " : "Unix ") + named(d->name) + " to " + named(d->peer);
    default:
      return "a directory";
  }
}

} // namespace unio::testing
