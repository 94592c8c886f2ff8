// src/driver/uring/requests.hpp: what the client of a ring asks for, except operations: to be woken, to end
// some, and to forget some that another thread has now.

#pragma once

#include "driver/uring/client.hpp"

namespace unio::inline v0_1::driver {

// The doorbell is a multishot poll on an eventfd. It ends when the completion queue overflows, and has to
// be armed again.
template <ring_kernel Kernel> void ring_client<Kernel>::arm_doorbell() noexcept {
  if (doorbell_armed_) return;
  io_uring_sqe* const sqe = kernel_.get();
  if (sqe == nullptr) return;
  sqe->opcode = IORING_OP_POLL_ADD;
  sqe->fd = doorbell_fd();
  sqe->poll32_events = POLLIN;
  sqe->len = IORING_POLL_ADD_MULTI;
  sqe->user_data = doorbell_tag;
  doorbell_armed_ = true;
}

// The doorbell comes first: without it no other thread could wake this one, which must not sleep then.
template <ring_kernel Kernel> void ring_client<Kernel>::submit_requests(engine& e) noexcept {
  submit_stale(e);
  arm_doorbell();
  submit_cancels(e);
}

template <ring_kernel Kernel> void ring_client<Kernel>::submit_cancels(engine& e) noexcept {
  while (io_operation* const op = to_cancel_.first()) {
    io_uring_sqe* const sqe = kernel_.get();
    if (sqe == nullptr) return; // never dropped: the next turn has room
    to_cancel_.remove(*op);
    ask_to_forget(*sqe, slots_.user_data(op->links.slot));
    ++e.statistics.submissions;
  }
}

template <ring_kernel Kernel> bool ring_client<Kernel>::release(io_operation& op) noexcept {
  if (to_submit_.contains(op)) {
    to_submit_.remove(op);
    move(op, place::at_hand);
    return true;
  }
  // The kernel is to forget it before it does anything else for this ring. So all that it has to be told
  // must fit into the queue.
  bool const waits = op.links.submitted() && !is_queued(op) && !kernel_.outlasts_entering(op);
  if (!waits || kernel_.unsubmitted() != 0 || completions_waiting() || kernel_.has_overflown() ||
      stale_count_ == std::min<std::size_t>(stale_.size(), kernel_.entries()))
    return false;
  stale_[stale_count_++] = slots_.user_data(op.links.slot);
  take_back(op);
  return true;
}

// First of all that the kernel learns, in a call of its own: to register memory may bring completions on.
template <ring_kernel Kernel> void ring_client<Kernel>::submit_stale(engine& e) noexcept {
  if (stale_count_ == 0) [[likely]]
    return;
  while (stale_count_ != 0) {
    io_uring_sqe* const sqe = kernel_.get(); // there is room: see release()
    if (sqe == nullptr) return;
    ask_to_forget(*sqe, stale_[--stale_count_]);
    ++e.statistics.submissions;
  }
  (void)kernel_.submit(); // what it does not take now comes first in the next call
}

template <ring_kernel Kernel>
void ring_client<Kernel>::ask_to_forget(io_uring_sqe& sqe, std::uint64_t tag) noexcept {
  sqe.opcode = IORING_OP_ASYNC_CANCEL;
  sqe.fd = -1;
  sqe.addr = tag;
  sqe.user_data = cancel_tag;
}

} // namespace unio::driver
