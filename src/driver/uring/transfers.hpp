// src/driver/uring/transfers.hpp: the transfers of a foreign_reactor's that its ring makes.
//
// The kernel looks for a descriptor's file when it takes the entry. Until then the number must not be closed:
// so entries are submitted under the reactor's lock, and what is not submitted is in a list, from which
// cancelling takes it back.

#pragma once

#include "driver/foreign/transfers.hpp"
#include "driver/uring/ring.hpp"
#include "driver/workers.hpp"
#include "sys/sanitizer.hpp"

#include <algorithm>

namespace unio::inline v0_1::driver {

/// All is called under the reactor's lock, submit() and ended() by the thread that waits.
class ring_transfers {
 public:
  explicit ring_transfers(ring& r) noexcept : ring_(r) {}

  [[nodiscard]] bool has_queued() const noexcept { return first_ != nullptr; }
  [[nodiscard]] bool has_in_kernel() const noexcept { return in_kernel_ != 0; }

  /// Its place becomes `queued`.
  void push(foreign_transfer& t) noexcept {
    set_place(t, transfer_place::queued);
    foreign_access::next_queued(t) = nullptr;
    (last_ != nullptr ? foreign_access::next_queued(*last_) : first_) = &t;
    last_ = &t;
  }
  /// False: the kernel has it.
  bool withdraw(foreign_transfer& t) noexcept {
    if (foreign_access::place(t).load(std::memory_order_relaxed) != std::uint32_t(transfer_place::queued))
      return false;
    foreign_transfer* before = nullptr;
    for (foreign_transfer* at = first_; at != &t; at = foreign_access::next_queued(*at)) before = at;
    (before != nullptr ? foreign_access::next_queued(*before) : first_) = foreign_access::next_queued(t);
    if (last_ == &t) last_ = before;
    return true;
  }
  /// They stay `queued`.
  void forget_queued() noexcept { first_ = last_ = nullptr; }

  /// False: the kernel does not take all at the moment.
  bool submit() noexcept {
    while (first_ != nullptr) {
      unsigned filled = 0;
      for (foreign_transfer* t = first_; t != nullptr && fill(*t); t = foreign_access::next_queued(*t))
        ++filled;
      unsigned const before = ring_.unsubmitted();
      (void)ring_.submit();
      unsigned const left = std::min(ring_.unsubmitted(), filled);
      for (unsigned i = 0; i != left; ++i) ring_.put_back();
      for (unsigned i = left; i != filled; ++i) {
        set_place(*first_, transfer_place::in_kernel);
        first_ = foreign_access::next_queued(*first_);
        ++in_kernel_;
      }
      if (left != 0 || ring_.unsubmitted() == before) return false;
    }
    last_ = nullptr;
    return true;
  }

  /// The kernel has it no longer. False: it has ended though nobody cancelled it, and is to be made again.
  bool ended(foreign_transfer& t, int result) noexcept {
    --in_kernel_;
    sys::kernel_gives_back(&t);
    bool const stopped = result == -ECANCELED || result == -EINTR;
    if (stopped && !foreign_access::is_cancelled(t)) return false;
    foreign_transfers& owner = *foreign_access::owner(t);
    // Of a file that is open with O_NONBLOCK the kernel refuses what is not in the page cache.
    if (result == -EAGAIN && !foreign_access::is_cancelled(t)) {
      owner.give_or_make(t);
    } else {
      owner.finish_awake(t, stopped ? -ECANCELED : result);
    }
    return true;
  }

  static void set_place(foreign_transfer& t, transfer_place p) noexcept {
    foreign_access::place(t).store(static_cast<std::uint32_t>(p), std::memory_order_relaxed);
  }

 private:
  bool fill(foreign_transfer& t) noexcept {
    io_uring_sqe* const e = ring_.get();
    if (e == nullptr) return false;
    e->opcode = foreign_access::writes(t) ? IORING_OP_WRITEV : IORING_OP_READV;
    e->fd = foreign_access::fd(t);
    e->off = static_cast<std::uint64_t>(foreign_access::offset(t));
    e->addr = reinterpret_cast<std::uintptr_t>(foreign_access::buffers(t));
    e->len = static_cast<std::uint32_t>(foreign_access::count(t));
    e->user_data = foreign_tag::make(t);
    sys::kernel_takes(&t);
    return true;
  }

  ring& ring_;
  foreign_transfer* first_ = nullptr;
  foreign_transfer* last_ = nullptr;
  unsigned in_kernel_ = 0;
};

} // namespace unio::driver
