// src/sys/timer_descriptor.hpp: a descriptor that is readable from a moment on (timerfd_create(2)).
//
// Not in the table of system calls: nothing of a simulation waits for it.

#pragma once

#include <cstdint>

namespace unio::inline v0_1::sys {

/// Makes one that has no moment: the descriptor, close-on-exec, or -errno.
int make_timer_descriptor() noexcept;

/// From when on it is readable: steady clock, ns; below 0: never. 0 or -errno.
int set_timer_descriptor(int fd, std::int64_t moment) noexcept;

} // namespace unio::sys
