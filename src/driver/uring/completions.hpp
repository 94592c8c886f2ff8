// src/driver/uring/completions.hpp: what the client of a ring makes of completions other than a plain end,
// and of an operation that is not for the ring.

#pragma once

#include "driver/uring/client.hpp"

namespace unio::inline v0_1::driver {

template <ring_kernel Kernel> void ring_client<Kernel>::take_completions(engine& e) noexcept {
  while (auto const* const cqe = kernel_.peek()) {
    std::uint64_t const tag = cqe->user_data;
    int const res = cqe->res;
    unsigned const flags = cqe->flags;
    io_operation* const op = slots_.find(tag);
    if (op == nullptr) {
      kernel_.advance();
      if (tag == doorbell_tag) {
        if (!goes_on(flags)) doorbell_armed_ = false;
      } else if (tag != cancel_tag) {
        ++e.statistics.completions;
        ++e.statistics.late_completions;
      }
      continue;
    }
    bool const keeps = keeps_arrivals(*op);
    // A second value on top of one that was not delivered yet: the receiver comes first.
    bool const waits = !keeps && engine::has_undelivered(*op) && (flags & IORING_CQE_F_NOTIF) == 0;
    if (waits && !comes_back(e, *op, res, flags)) return;
    kernel_.advance();
    ++e.statistics.completions;
    sys::kernel_gives_back(op);
    if (keeps) {
      arrived(e, *op, res, flags);
    } else if (has_simply_ended(*op, res, flags)) {
      free_slot(*op);
      e.performed(*op, res);
    } else {
      completed(e, *op, res, flags);
    }
  }
}

// A cancel that was not asked for: the kernel got no thread for it, as while signals keep coming
// (io_uring/io-wq.c, WORKER_INIT_LIMIT). It was not begun.
template <ring_kernel Kernel> bool ring_client<Kernel>::needs_kernel_thread(io_operation const& op) noexcept {
  readiness const wants = op.links.is.wants;
  return wants == readiness::worker || wants == readiness::nothing;
}

// The kernel chooses what it reads into.
template <ring_kernel Kernel> bool ring_client<Kernel>::keeps_arrivals(io_operation const& op) noexcept {
  auto const* const from = op.faces().resource;
  return from != nullptr && from->arrived != nullptr && op.links.is.where == place::in_kernel;
}

// It was asked for, because the thread ends, and the kernel has not done it.
template <ring_kernel Kernel>
bool ring_client<Kernel>::comes_back(engine const& e, io_operation const& op, int res,
                                     unsigned flags) noexcept {
  return e.gives_away() && !goes_on(flags) && (res == -ECANCELED || res == -EINTR) && !is_to_end(op);
}

// It has read, or come to the end; or it does not go on, for want of a buffer, say.
template <ring_kernel Kernel>
void ring_client<Kernel>::arrived(engine& e, io_operation& op, int res, unsigned flags) noexcept {
  bool const was_to_end = to_cancel_.contains(op);
  if (was_to_end) to_cancel_.remove(op);
  bool const has_buffer = (flags & IORING_CQE_F_BUFFER) != 0;
  op.faces().resource->arrived(op, has_buffer ? kernel_.slots_of(op) : nullptr,
                               flags >> IORING_CQE_BUFFER_SHIFT, res);
  bool const more = goes_on(flags);
  if (!more) free_slot(op);
  if (engine::has_undelivered(op)) {
    if (!more) move(op, place::yielded);
  } else if (more) {
    if (op.faces().resource->has_arrived(op)) e.bring(op);
    if (was_to_end && !engine::has_undelivered(op)) ask_to_end(op);
  } else if (is_to_end(op)) {
    e.process(op, -ECANCELED, 0);
  } else if (!e.perform_now(op)) {
    e.await_readiness(op);
  }
}

template <ring_kernel Kernel> int ring_client<Kernel>::look_at(engine& e, io_operation& op) noexcept {
  // Described but not submitted: it may still be done without the ring, and if an attempt costs no more
  // than asking the ring would, now or at the next look.
  if (to_submit_.contains(op) && op.faces().tries != inline_attempt::never) {
    to_submit_.remove(op);
    place const where = op.links.is.where;
    move(op, place::at_hand);
    if (e.perform_now(op)) return 0;
    move(op, where);
    to_submit_.push(op);
    readiness const wants = op.links.is.wants = op.faces().wants(op);
    bool const can_wait = wants == readiness::readable || wants == readiness::writable;
    if (can_wait && !untried_waits_) return 0;
  }
  return std::min(0, ring_client::reap(e, 0));
}

template <ring_kernel Kernel>
void ring_client<Kernel>::completed(engine& e, io_operation& op, int res, unsigned flags) noexcept {
  // An operation is in one queue: one that has a value to deliver asks for its end again after that
  // (engine::after_value).
  bool const was_to_end = to_cancel_.contains(op);
  if (was_to_end) to_cancel_.remove(op);
  bool const performed = what_follows(op.links.is.where, trigger::completion) == reaction::decode;
  if (!goes_on(flags)) free_slot(op);
  if (comes_back(e, op, res, flags)) [[unlikely]]
    return e.came_back(op);
  if (performed) {
    if (op.is_multishot()) {
      if (res == -EINVAL && multishot_ && !is_multishot_) {
        // A kernel that knows the operation, but only for one value at a time; or it is the descriptor's
        // error, which a call says too.
        if (is_to_end(op)) return e.process(op, -ECANCELED, 0);
        bool const has_ended = e.perform_now(op);
        multishot_ = has_ended && op.outcome_value() == -EINVAL;
        if (!has_ended) e.await_readiness(op);
        return;
      }
      is_multishot_ = is_multishot_ || goes_on(flags);
    }
    if (bool const unasked = res < 0 && !is_to_end(op); unasked) {
      // The ring's end came before it was begun, or interrupted it.
      if (kernel_.has_left() && res == -ECANCELED)
        return goes_on(flags) ? e.process(op, -EAGAIN, flags) : e.arm_again(op);
      if (kernel_.has_left() && res == -EINTR) res = -ENOTRECOVERABLE;
      if (res == -ECANCELED && needs_kernel_thread(op)) return e.await_readiness(op);
    }
    e.process(op, res, flags);
    if (was_to_end && goes_on(flags) && !engine::has_undelivered(op)) ask_to_end(op);
    return;
  }
  if (res < 0 && res != -EINVAL) return e.process(op, res, 0);
  if (res > 0 && (res & POLLRDHUP) != 0) sys::note_waited(op.fd(), sys::shut_down_bit, true);
  bool const is_ready = res > 0 && (static_cast<unsigned>(res) & ring_poll_events(op.links.is.wants)) != 0;
  if (e.perform_now(op)) return;
  if (is_to_end(op)) return e.process(op, -ECANCELED, 0);
  is_ready ? e.await_readiness(op) : e.retry_later(op); // the kernel would say the same again: see is_news()
}

template <ring_kernel Kernel> void ring_client<Kernel>::without_ring(engine& e, io_operation& op) noexcept {
  readiness const wants = op.links.is.wants;
  bool const may_try =
      wants == readiness::readable || wants == readiness::writable || wants == readiness::retry;
  bool const untried = op.faces().tries == inline_attempt::never || wants == readiness::retry ||
                       (untried_waits_ && op.faces().flow == direction::out);
  if (may_try && untried && e.perform_now(op)) return;
  if (may_try && op.is_multishot() && e.perform_now(op)) return;
  e.await_readiness(op);
}

} // namespace unio::driver
