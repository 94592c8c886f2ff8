#include "driver/uring/foreign_ring.hpp"

#include "driver/poll_events.hpp"
#include "sys/calls.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

int foreign_ring::open(unsigned entries) noexcept {
  if (int const e = kernel.open_deferred(entries); e != 0) return e;
  // A filter may allow one call and not the other. A ring that has not begun says that to whom it lets pass.
  int const entered = kernel.enter(0, -1);
  return entered == -EBADFD ? 0 : entered;
}

int foreign_ring::begin() noexcept {
  if (owner_.load(std::memory_order_relaxed) != nullptr) return 0;
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

// The ring performs what was asked of it when it is entered, a part at a time. A thread of the kernel that
// performs a request is not waited for: the ring says when it is over.
int foreign_ring::drop(std::initializer_list<std::uint64_t> tags, std::uint32_t flags) noexcept {
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
