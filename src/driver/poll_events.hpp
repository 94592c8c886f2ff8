// src/driver/poll_events.hpp: what poll(2) is asked for.

#pragma once

#include <unio/operation.hpp>

#include <poll.h>

#include <cerrno>

namespace unio::inline v0_1::driver {

constexpr short poll_events(readiness r) noexcept {
  switch (r) {
    case readiness::writable:
      return POLLOUT;
    case readiness::exceptional:
      return POLLPRI;
    default:
      return POLLIN;
  }
}

/// The same for a ring's POLL_ADD. A ring leaves POLLPRI out when it compares a wake-up with what is waited
/// for (IO_ASYNC_POLL_COMMON in io_uring/poll.c), and would sleep on. Every kernel function that announces
/// urgent data announces POLLRDBAND too.
constexpr unsigned ring_poll_events(readiness r) noexcept {
  auto const events = static_cast<unsigned>(poll_events(r));
  return r == readiness::exceptional ? events | POLLRDBAND : events;
}

/// A set as poll(2) has it. POLLERR and POLLHUP are looked for in any case.
constexpr unsigned poll_events(readiness_set what) noexcept {
  unsigned events = 0;
  if (has(what, readiness_set::readable)) events |= POLLIN;
  if (has(what, readiness_set::writable)) events |= POLLOUT;
  if (has(what, readiness_set::exceptional)) events |= POLLPRI;
  if (has(what, readiness_set::error)) events |= POLLERR;
  if (has(what, readiness_set::hang_up)) events |= POLLHUP;
  return events;
}
constexpr unsigned ring_poll_events(readiness_set what) noexcept {
  return poll_events(what) | (has(what, readiness_set::exceptional) ? unsigned{POLLRDBAND} : 0U);
}

/// What poll(2), epoll(7) or a ring's POLL_ADD says.
constexpr readiness_set found_in(unsigned events) noexcept {
  readiness_set is = readiness_set::none;
  if ((events & POLLIN) != 0) is |= readiness_set::readable;
  if ((events & POLLOUT) != 0) is |= readiness_set::writable;
  if ((events & (POLLPRI | POLLRDBAND)) != 0) is |= readiness_set::exceptional;
  if ((events & POLLERR) != 0) is |= readiness_set::error;
  if ((events & POLLHUP) != 0) is |= readiness_set::hang_up;
  return is;
}

/// Whether what a ring's POLL_ADD says is news of these events. It also tells that the peer has ended its
/// direction, at once and each time (IO_POLL_UNMASK in io_uring/poll.c), and refuses what nothing is ever
/// announced of (EINVAL).
constexpr bool is_news(int res, unsigned events) noexcept {
  if (res <= 0) return res != -EINVAL;
  return (static_cast<unsigned>(res) & (events | POLLERR | POLLHUP | POLLNVAL)) != 0;
}

/// What such events wait for.
constexpr readiness wanted_by(unsigned events) noexcept {
  if ((events & POLLOUT) != 0) return readiness::writable;
  return (events & POLLPRI) != 0 ? readiness::exceptional : readiness::readable;
}

} // namespace unio::driver
