#include "sys/descriptors.hpp"

#include <unio/timer_handle.hpp>

#include <sys/eventfd.h>

namespace unio::inline v0_1 {

static_assert(sizeof(event_handle) == 16);

result<event_handle> event_handle::create() noexcept {
  int const fd = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (fd < 0) return detail::failed(fd, "create");
  return event_handle(fd);
}

result<void> event_handle::signal(std::uint64_t count) noexcept {
  int const interrupted_errno = errno; // a signal handler must preserve it
  std::int64_t const r = sys::uninterrupted([&] { return sys::write(fd_, &count, sizeof(count)); });
  errno = interrupted_errno;
  if (r < 0 && r != -EAGAIN) return detail::failed(r, "signal", fd_); // EAGAIN: full, so signalled
  return {};
}

} // namespace unio
