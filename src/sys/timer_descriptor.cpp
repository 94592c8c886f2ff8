#include "sys/timer_descriptor.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

namespace unio::inline v0_1 {

int sys::make_timer_descriptor() noexcept {
  int const fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  return fd < 0 ? -errno : fd;
}

int sys::set_timer_descriptor(int fd, std::int64_t moment) noexcept {
  itimerspec t{};
  if (moment >= 0) {
    std::int64_t const at = std::max<std::int64_t>(moment, 1); // 0 would mean never
    t.it_value = {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
  }
  return ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, nullptr) < 0 ? -errno : 0;
}

} // namespace unio
