// async_wait_ready: waiting for a descriptor that is somebody else's.
//
//   begin     the handle's own epoll is told what is waited for, once (EPOLLONESHOT)
//   wait      for that epoll to have something: an ordinary wait on a descriptor of ours
//   perform   asks that epoll what it has
//
// Drivers never see the foreign number, so that nothing of what they keep about numbers goes wrong when its
// owner closes it behind our back. The epoll knows the file by its number and its identity (fs/eventpoll.c,
// ep_find): a number that stands for another file is not found. It keeps no file open.

#include "driver/poll_events.hpp"
#include "op/face.hpp"
#include "sys/calls.hpp"

#include <unio/foreign_handle.hpp>

#include <sys/epoll.h>

#include <cerrno>

namespace unio::inline v0_1 {

/// Private state of the operation.
struct detail::ready_access {
  template <class Op> static auto& self(Op& op) noexcept {
    return static_cast<std::conditional_t<std::is_const_v<Op>, async_wait_ready const, async_wait_ready>&>(
        op);
  }
  static int foreign(io_operation& op) noexcept { return self(op).foreign_; }
  static int& refused(io_operation& op) noexcept { return self(op).refused_; }
  template <class Op> static auto& only_looks(Op& op) noexcept { return self(op).only_looks_; }
};

namespace {

using access = detail::ready_access;

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI && EPOLLERR == POLLERR &&
              EPOLLHUP == POLLHUP);

int set_of(unsigned events) noexcept { return detail::bits(driver::found_in(events)); }

unsigned wanted(io_operation const& op) noexcept { return driver::poll_events(access::self(op).what()); }

// A simulation has no epoll, and its world says what is ready.
void begin(io_operation& op) noexcept {
  access::refused(op) = 0;
  access::only_looks(op) = !sys::kernel_answers();
  if (access::only_looks(op)) return;
  epoll_event e{.events = wanted(op) | EPOLLONESHOT, .data = {}};
  auto const r = static_cast<int>(sys::epoll_ctl(op.fd(), EPOLL_CTL_MOD, access::foreign(op), &e));
  if (r < 0) access::refused(op) = r == -ENOENT ? -EBADF : r; // ENOENT: the number stands for another file
}

readiness wants(io_operation const& op) noexcept {
  return access::only_looks(op) ? readiness::retry : readiness::readable;
}

int look(io_operation& op) noexcept {
  pollfd p{.fd = access::foreign(op), .events = static_cast<short>(wanted(op)), .revents = 0};
  timespec const now{};
  int const r = op::uninterrupted([&] { return sys::poll(&p, 1, &now); });
  if (r <= 0) return r == 0 ? -EAGAIN : r;
  return (p.revents & POLLNVAL) != 0 ? -EBADF : set_of(static_cast<unsigned short>(p.revents));
}

int perform(io_operation& op, attempt) noexcept {
  if (access::refused(op) != 0) return access::refused(op);
  if (access::only_looks(op)) return look(op);
  epoll_event e{};
  timespec const now{};
  int const r = op::uninterrupted([&] { return sys::epoll_wait(op.fd(), &e, 1, &now); });
  if (r <= 0) return r == 0 ? -EAGAIN : r;
  return set_of(e.events);
}

} // namespace

constinit operation_faces const detail::wait_ready_faces = {.name = "wait_ready",
                                                            .tries = inline_attempt::always,
                                                            .begin = begin,
                                                            .wants = wants,
                                                            .perform = perform,
                                                            .complete = op::decode,
                                                            .can_be_taken = true};

} // namespace unio
