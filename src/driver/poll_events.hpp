// src/driver/poll_events.hpp: what poll(2) is asked for.

#pragma once

#include <unio/operation.hpp>

#include <poll.h>

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

/// What such events wait for.
constexpr readiness wanted_by(unsigned events) noexcept {
  if ((events & POLLOUT) != 0) return readiness::writable;
  return (events & POLLPRI) != 0 ? readiness::exceptional : readiness::readable;
}

} // namespace unio::driver
