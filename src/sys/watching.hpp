// src/sys/watching.hpp: an epoll of which only the descriptor is waited for (epoll(7)).

#pragma once

#include "sys/calls.hpp"

#include <sys/epoll.h>

namespace unio::inline v0_1::sys {

/// Has it be readable while `fd` is. 0 or -errno.
inline int watch_readable(int epoll, int fd) noexcept {
  epoll_event e{.events = EPOLLIN, .data = {}};
  return static_cast<int>(sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
}

} // namespace unio::sys
