// src/driver/uring/transfers.hpp: the transfers of a foreign_reactor's that its ring makes.
//
// The kernel looks for a descriptor's file when it takes the entry. Until then the number must not be
// closed. So what is not filled in is in a list, from which cancelling takes it back; and a thread that
// cancels what another has filled in waits until the kernel was entered: the same call submits, and waits
// for completions.

#pragma once

#include "driver/foreign/perform.hpp"
#include "driver/foreign/transfers.hpp"
#include "driver/poll_events.hpp"
#include "driver/uring/ring.hpp"
#include "driver/workers.hpp"
#include "sys/give_way.hpp"
#include "sys/sanitizer.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace unio::inline v0_1::driver {

/// All is called under the reactor's lock, but what says otherwise; fill() and what follows it by the thread
/// that waits.
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

  /// Fills in what is queued. False: some are left, as the kernel takes no more at the moment.
  bool fill() noexcept {
    while (first_ != nullptr) {
      foreign_transfer& t = *first_;
      if (!fill(t)) {
        if (ring_.submit() != 0 || !fill(t)) return false;
      }
      set_place(t, transfer_place::in_kernel);
      ++in_kernel_;
      ++filled_;
      first_ = foreign_access::next_queued(t);
      until_.store(ring_.end_of_entries(), std::memory_order_relaxed);
      is_entering_.store(true, std::memory_order_relaxed);
    }
    last_ = nullptr;
    return true;
  }
  /// Not under the lock: the kernel was entered after fill(). True: it has taken all.
  bool entered() noexcept {
    if (in_kernel_ == 0) return true; // nor was any filled in
    brought_ = ring_.completions();
    // Also if some are left: one that waits for this has the lock, which take_back() needs.
    is_entering_.store(false, std::memory_order_release);
    return std::min(ring_.unsubmitted(), std::exchange(filled_, 0U)) == 0;
  }
  /// It has not. Before the kernel is entered again.
  [[gnu::cold, gnu::noinline]] void take_back() noexcept {
    while (ring_.unsubmitted() != 0) {
      foreign_transfer* const t = foreign_tag::find_transfer(ring_.last_unsubmitted());
      if (t == nullptr) break; // a watch's: these came before
      ring_.put_back();
      --in_kernel_;
      foreign_transfer& owned = *t;
      sys::kernel_gives_back(&owned);
      if (foreign_access::is_cancelled(owned)) {
        foreign_access::owner(owned)->finish_awake(owned, -ECANCELED);
        continue;
      }
      set_place(owned, transfer_place::queued);
      foreign_access::next_queued(owned) = first_;
      if (first_ == nullptr) last_ = &owned;
      first_ = &owned;
    }
  }
  /// For a thread that cancels: until the kernel was entered with all entries that are filled in. After that
  /// it looks up no descriptor by its number: what it did not take is taken back, and is cancelled. At most
  /// as long as it takes another thread to submit them.
  void await_taken() noexcept {
    sys::await_other([this] {
      return !is_entering_.load(std::memory_order_acquire) ||
             ring_.has_taken(until_.load(std::memory_order_relaxed));
    });
  }

  enum class outcome : std::uint8_t { again, given, over };
  /// The kernel has it no longer. `again`: it has ended though it was not cancelled, and is to be made again;
  /// `given`: a worker has it; `over`: with this `result`.
  outcome ended(foreign_transfer& t, std::int64_t& result, unsigned flags) noexcept {
    --in_kernel_;
    sys::kernel_gives_back(&t);
    bool const is_cancelled = foreign_access::is_cancelled(t);
    if (result == -ECANCELED || result == -EINTR) {
      if (!is_cancelled) {
        was_given_back(t);
        return outcome::again;
      }
      result = -ECANCELED;
    }
    if (foreign_watch* const w = foreign_access::watch(t); w != nullptr) {
      if (result > 0 && (announces(foreign_access::entry(t)) || foreign_access::is_connecting(t)))
          [[unlikely]] {
        // As in foreign.cpp: what brings bytes announces urgent data.
        std::int64_t const is = is_cancelled ? -ECANCELED : perform_unwaiting(t);
        if (is == -EAGAIN) return outcome::again;
        result = is;
      }
      // The caller knows that the descriptor does not block.
      if (receives(foreign_access::entry(t)))
        foreign_access::expects(*w) = (flags & IORING_CQE_F_SOCK_NONEMPTY) != 0;
    } else if (result == -EAGAIN && !is_cancelled) {
      // Of a file that is open with O_NONBLOCK the kernel refuses what is not in the page cache.
      foreign_access::owner(t)->give_or_make(t);
      return outcome::given;
    }
    return outcome::over;
  }

 private:
  static constexpr unsigned few = 2;

  static bool announces(foreign_entry const& e) noexcept {
    io_uring_sqe as;
    std::memcpy(&as, &e, sizeof as);
    return e.opcode == IORING_OP_POLL_ADD && (as.poll32_events & POLLPRI) != 0;
  }
  static bool receives(foreign_entry const& e) noexcept {
    return e.opcode == IORING_OP_RECVMSG || e.opcode == IORING_OP_RECV;
  }

  bool fill(foreign_transfer& t) noexcept {
    io_uring_sqe* const e = ring_.get_for_all();
    if (e == nullptr) return false;
    std::memcpy(static_cast<void*>(e), &foreign_access::entry(t), sizeof *e);
    e->user_data = foreign_tag::make(t);
    if (foreign_access::watch(t) == nullptr) {
      // A file's: as it is.
    } else if (receives(foreign_access::entry(t))) {
      if (e->msg_flags == 0) {
        foreign_watch& w = *foreign_access::watch(t);
        if (e->opcode == IORING_OP_RECVMSG) receive_plainly(*e, w);
        // A first attempt is for nothing where there was no more the last time. But while much is under way
        // the peer has mostly answered by the time that the kernel takes the entry.
        if (!foreign_access::expects(w) && brought_ <= few) e->ioprio |= IORING_RECVSEND_POLL_FIRST;
      }
    } else if (e->opcode == IORING_OP_POLL_ADD) {
      if ((e->poll32_events & POLLPRI) != 0) e->poll32_events |= ring_poll_events(readiness::exceptional);
    } else if (e->opcode == IORING_OP_CONNECT && foreign_access::is_connecting(t)) {
      // Another ring has begun it. A second call would be refused before its end.
      e->opcode = IORING_OP_POLL_ADD;
      e->addr = e->off = 0;
      e->poll32_events = POLLOUT;
    } else if (e->opcode == IORING_OP_READ_FIXED || e->opcode == IORING_OP_WRITE_FIXED) {
      // No memory is registered with this ring.
      e->opcode = e->opcode == IORING_OP_READ_FIXED ? IORING_OP_READ : IORING_OP_WRITE;
      e->buf_index = 0;
    } else if (e->opcode == IORING_OP_SENDMSG) {
      send_plainly(*e);
    }
    sys::kernel_takes(&t);
    return true;
  }

  // One buffer, and nothing else: the kernel has less to read.
  static bool is_plain(msghdr const& m) noexcept {
    return m.msg_iovlen == 1 && m.msg_name == nullptr && m.msg_control == nullptr &&
           m.msg_iov->iov_len <= 0x7fff'ffff;
  }
  static msghdr& message_of(io_uring_sqe const& e) noexcept {
    return *reinterpret_cast<msghdr*>(static_cast<std::uintptr_t>(e.addr));
  }
  static void take_buffer(io_uring_sqe& e, msghdr const& m) noexcept {
    e.addr = reinterpret_cast<std::uintptr_t>(m.msg_iov->iov_base);
    e.len = static_cast<std::uint32_t>(m.msg_iov->iov_len);
  }
  static void send_plainly(io_uring_sqe& e) noexcept {
    msghdr const& m = message_of(e);
    if (!is_plain(m)) return;
    e.opcode = IORING_OP_SEND;
    take_buffer(e, m);
  }
  // Of other sockets the message's flags say more, that it was cut off, say.
  static void receive_plainly(io_uring_sqe& e, foreign_watch& w) noexcept {
    msghdr& m = message_of(e);
    if (!is_plain(m) || m.msg_iov->iov_len == 0 || !is_tcp_stream(w)) return;
    m.msg_flags = 0; // as the kernel would
    e.opcode = IORING_OP_RECV;
    take_buffer(e, m);
  }

  ring& ring_;
  foreign_transfer* first_ = nullptr;
  foreign_transfer* last_ = nullptr;
  unsigned in_kernel_ = 0;
  unsigned brought_ = 0; // completions by the last enter
  unsigned filled_ = 0;  // since the kernel was entered
  std::atomic<bool> is_entering_{false};
  std::atomic<unsigned> until_{0}; // the end of what is filled in
};

} // namespace unio::driver
