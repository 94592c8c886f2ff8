#include "sys/descriptors.hpp"

#include <unio/foreign_handle.hpp>

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace unio::inline v0_1 {

static_assert(sizeof(foreign_handle) == 24);

result<foreign_handle> foreign_handle::watch(int fd) noexcept {
  // A simulation has no epoll: there the operation looks at the number itself, and an event that nothing
  // signals stands for what can be closed.
  if (!sys::kernel_answers()) {
    std::int64_t const own = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (own < 0) return detail::failed(own, "watch", fd);
    return foreign_handle(static_cast<int>(own), fd);
  }
  int const own = sys::above_standard(sys::epoll_create(EPOLL_CLOEXEC));
  if (own < 0) return detail::failed(own, "watch", fd);
  // Until something is waited for: errors and hang-ups cannot be left out, but are reported once.
  epoll_event e{.events = EPOLLONESHOT, .data = {}};
  if (std::int64_t const r = sys::epoll_ctl(own, EPOLL_CTL_ADD, fd, &e); r < 0) {
    sys::close(own);
    return detail::failed(r, "watch", fd);
  }
  return foreign_handle(own, fd);
}

} // namespace unio
