#include "driver/uring/foreign_ring.hpp"

#include "driver/poll_events.hpp"
#include "sys/calls.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

int foreign_ring::drop_of(int ring_fd, std::uint64_t tag, std::uint32_t flags, bool waits) noexcept {
  io_uring_sync_cancel_reg order{};
  order.addr = tag;
  order.fd = -1;
  order.flags = flags;
  if (waits) order.timeout = {.tv_sec = -1, .tv_nsec = -1};
  return static_cast<int>(sys::io_uring_register(ring_fd, IORING_REGISTER_SYNC_CANCEL, &order, 1));
}

int foreign_ring::open(unsigned entries, foreign_use use) noexcept {
  bool const for_one = use == foreign_use::by_one_thread;
  int const deferred = for_one ? kernel.open_deferred(entries) : -EOPNOTSUPP;
  if (deferred != 0 && deferred != -EOPNOTSUPP) return deferred;
  if (deferred != 0)
    if (int const e = kernel.open_for_any_thread(entries, for_one); e < 0) return e;
  // A filter may allow one call and not the other. A ring that has not begun says that to whom it lets pass.
  int const entered = kernel.enter(0, -1);
  if (deferred == 0) return entered == -EBADFD ? 0 : entered;
  if (entered < 0) return entered;
  // Nothing has a tag of all ones.
  int const e = drop_of(kernel.fd(), ~std::uint64_t{0});
  return e == -ENOENT ? 0 : e;
}

int foreign_ring::begin() noexcept {
  if (!is_deferred() || owner_.load(std::memory_order_relaxed) != nullptr) return 0;
  if (int const e = kernel.enable(); e < 0) return e;
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  return 0;
}

bool foreign_ring::watch(int fd, unsigned mask, std::uint64_t tag) noexcept {
  io_uring_sqe* e = kernel.get();
  if (e == nullptr && kernel.submit() == 0) e = kernel.get();
  if (e == nullptr) return false;
  bool const is_exceptional = (mask & foreign::exceptional) != 0;
  e->opcode = IORING_OP_POLL_ADD;
  e->fd = fd;
  e->len = IORING_POLL_ADD_MULTI;
  e->poll32_events = is_exceptional ? mask | ring_poll_events(readiness::exceptional) : mask;
  e->user_data = tag;
  return true;
}

// A deferred ring performs what was asked of it when it is entered, a part at a time. A thread of the kernel
// that performs a request is not waited for: the ring says when it is over.
int foreign_ring::drop(std::initializer_list<std::uint64_t> tags, std::uint32_t flags, bool waits) noexcept {
  if (!is_deferred()) {
    for (std::uint64_t const tag : tags)
      if (int const e = drop_of(kernel.fd(), tag, flags, waits); e < 0 && e != -ENOENT) return e;
    return 0;
  }
  if (owner_.load(std::memory_order_relaxed) == nullptr) return 0; // it has none
  for (std::uint64_t const tag : tags) {
    io_uring_sqe* e = kernel.get();
    if (e == nullptr && kernel.submit() == 0) e = kernel.get();
    if (e == nullptr) return -EAGAIN;
    e->opcode = IORING_OP_ASYNC_CANCEL;
    e->fd = -1;
    e->addr = tag;
    e->cancel_flags = flags;
    e->flags = IOSQE_CQE_SKIP_SUCCESS;
    e->user_data = ignored_tag;
  }
  constexpr int at_most = 100'000;
  for (int i = 0; i != at_most; ++i) {
    if (int const e = kernel.enter(0, 0); e < 0) return e;
    if (kernel.unsubmitted() == 0 && !kernel.has_more()) return 0;
  }
  return -EAGAIN;
}

} // namespace unio::driver
