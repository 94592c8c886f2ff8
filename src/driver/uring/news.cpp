#include "driver/uring/news.hpp"

#include "driver/uring/ring.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/watching.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

void take_back(int eventfd) noexcept {
  std::uint64_t times = 0;
  (void)sys::read(eventfd, &times, sizeof times); // -EAGAIN: it says nothing
}

} // namespace

ring_news::~ring_news() {
  if (epoll_fd_ >= 0) sys::close(epoll_fd_);
  if (eventfd_ >= 0) sys::close(eventfd_);
}

int ring_news::make(int doorbell_fd) noexcept {
  if (eventfd_ < 0) eventfd_ = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (eventfd_ < 0) return eventfd_;
  int const epoll = sys::above_standard(sys::epoll_create(EPOLL_CLOEXEC));
  if (epoll < 0) return epoll;
  int r = sys::watch_readable(epoll, eventfd_);
  if (r >= 0) r = sys::watch_readable(epoll, doorbell_fd);
  if (r < 0) {
    sys::close(epoll);
    return r;
  }
  epoll_fd_ = epoll;
  return 0;
}

int ring_news::enlist(ring const& r) noexcept {
  if (std::exchange(enlisted_, false)) sys::io_uring_register(r.fd(), IORING_UNREGISTER_EVENTFD, nullptr, 0);
  int e = static_cast<int>(sys::io_uring_register(r.fd(), IORING_REGISTER_EVENTFD, &eventfd_, 1));
  enlisted_ = e >= 0;
  return e;
}

int ring_news::descriptor(ring& r, int doorbell_fd) noexcept {
  if (epoll_fd_ < 0)
    if (int const e = make(doorbell_fd); e < 0) return e;
  if (!enlisted_)
    if (int const e = enlist(r); e < 0) return e;
  return epoll_fd_;
}

bool ring_news::renew(ring const& r, int doorbell_fd, std::uint64_t turns) noexcept {
  take_back(eventfd_);
  take_back(doorbell_fd); // what it was rung for is looked for before the thread sleeps (mailbox.hpp)
  if (turns != turns_) {
    if (enlist(r) < 0) return false;
    turns_ = turns;
  }
  // The kernel marks the ring before it looks for the eventfd: what it could not signal is seen here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !r.needs_enter();
}

} // namespace unio::driver
