// src/driver/uring/ring.hpp: one io_uring: its two queues in user memory, and the one system call that moves
// them on.
//
// liburing maps the queues. Entering goes through sys::io_uring_enter, so that tests can make it fail.

#pragma once

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
// It has the kernel's io_uring.h, and comes before liburing's copy of that with the same guard, in which a
// member has another type: files that know no liburing see the kernel's, and all must agree.
#include "sys/kernel_abi.hpp"

#include <liburing.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>

namespace unio::inline v0_1::driver {

/// Which kinds of entry a kernel knows, by their numbers; and whether to look whether their memory is
/// registered: of none before something is offered, which sets it for all. So a program that offers nothing
/// pays nothing for it. All but the marks: on one thread.
class known_entries {
 public:
  known_entries() noexcept;
  known_entries(known_entries const&) = delete;
  known_entries& operator=(known_entries const&) = delete;
  ~known_entries();

  void add(std::uint8_t kind) noexcept;
  /// It is known, and that is all there is to it.
  [[nodiscard]] bool is_plain(std::uint8_t kind) const noexcept { return mark(kind) == known; }
  [[nodiscard]] bool has(std::uint8_t kind) const noexcept { return mark(kind) != unknown; }

 private:
  friend class offered_memory;
  static constexpr std::uint8_t unknown = 0, known = 1, looks = 2;
  // Relaxed: who uses memory knows that it was offered; who does not see this mark uses it as any memory.
  [[nodiscard]] std::uint8_t mark(std::uint8_t kind) const noexcept {
    return marks_[kind].load(std::memory_order_relaxed);
  }
  void look_from_now_on() noexcept;

  std::array<std::atomic<std::uint8_t>, 256> marks_{};
  known_entries* next_ = nullptr; // of the process's, under the list's lock
  known_entries* previous_ = nullptr;
};

class ring {
 public:
  ring() = default;
  ring(ring const&) = delete;
  ring& operator=(ring const&) = delete;
  ~ring();

  /// Sets it up with as many of the wanted features as the kernel takes, and with fewer entries where memory
  /// is short. Disabled until enable(), so that the thread that will run it becomes its only submitter.
  /// Returns 0, or what io_uring_setup(2) said to the most modest wish.
  int open(unsigned entries) noexcept;
  /// As open(), but -EOPNOTSUPP unless completions are deferred until its thread enters, and what has
  /// completed is kept when the ring is given up (leave()), which is prepared.
  int open_deferred(unsigned entries) noexcept;
  /// From the thread that will use it from now on.
  int enable() noexcept;
  /// How many threads the kernel may have at most, for what the ring of the calling thread cannot do at once.
  void bound_workers(unsigned for_files, unsigned for_others) noexcept;

  [[nodiscard]] bool has(std::uint32_t setup_flag) const noexcept { return (flags_ & setup_flag) != 0; }
  [[nodiscard]] bool is_registered() const noexcept { return registered_; }
  [[nodiscard]] bool has_no_iowait() const noexcept { return no_iowait_; }
  /// A child made by fork has it: it is the parent's.
  [[nodiscard]] bool is_inherited() const noexcept;
  [[nodiscard]] unsigned entries() const noexcept { return ring_.sq.ring_entries; }
  [[nodiscard]] int fd() const noexcept { return ring_.ring_fd; }
  /// Whether something is complete, or would be as soon as its thread enters. From any thread.
  [[nodiscard]] bool has_news() const noexcept { return sys::is_readable(fd()); }

  /// A submission entry, zeroed, or null if the queue is full. It is submitted unless put_back() follows.
  io_uring_sqe* get() noexcept;
  /// The same, of which the caller writes every byte.
  io_uring_sqe* get_for_all() noexcept;
  void put_back() noexcept { --ring_.sq.sqe_tail; }
  /// The user_data of what put_back() would take.
  [[nodiscard]] std::uint64_t last_unsubmitted() const noexcept {
    return ring_.sq.sqes[(ring_.sq.sqe_tail - 1) & ring_.sq.ring_mask].user_data;
  }
  [[nodiscard]] unsigned end_of_entries() const noexcept { return ring_.sq.sqe_tail; }
  /// Whether the kernel has taken all before such an end. From any thread.
  [[nodiscard]] bool has_taken(unsigned end) const noexcept {
    unsigned const head = std::atomic_ref(*ring_.sq.khead).load(std::memory_order_acquire);
    return static_cast<int>(head - end) >= 0;
  }
  [[nodiscard]] unsigned unsubmitted() const noexcept { return ring_.sq.sqe_tail - ring_.sq.sqe_head; }

  /// Publishes what was got, submits it, and waits for `wait_for` completions, at most for `timeout_ns` (< 0:
  /// for ever). Returns 0 or -errno; -ETIME and -EINTR are not errors. What the kernel did not take stays in
  /// the queue.
  int enter(unsigned wait_for, std::int64_t timeout_ns) noexcept;
  /// Only submits what was got: with deferred task work, what the kernel has to bring waits for enter().
  int submit() noexcept;
  /// Sleeps for a moment, in which memory may come back.
  static void pause() noexcept;

  /// The user_data of each entry that the kernel did not take.
  template <class F> void for_each_unsubmitted(F f) const noexcept {
    io_uring_sq const& sq = ring_.sq;
    for (unsigned i = sq.sqe_head; i != sq.sqe_tail; ++i) f(sq.sqes[i & sq.ring_mask].user_data);
  }

  // How a ring ends that may not be entered any more. Its operations go on after its descriptor was closed,
  // and only the end of the whole shows that they have ended.

  /// So that it can end while its thread lives, and that the end can be seen: gives the registration back and
  /// has the ring hold the far end of a pipe, which the kernel closes when nothing of the ring is left.
  /// Returns 0 or -errno.
  int prepare_end() noexcept;
  /// Gives it up. Its queues are empty until has_ended().
  void leave() noexcept;
  [[nodiscard]] bool has_left() const noexcept { return has_left_; }
  /// True once the kernel holds nothing any more. peek() then tells what has completed since leave(), where
  /// the kernel lets that be kept (from Linux 6.10 on).
  bool has_ended() noexcept;

  /// True if the kernel has something for us that only entering brings forth.
  [[nodiscard]] bool needs_enter() const noexcept;
  /// True if the kernel says that entering brings more completions.
  [[nodiscard]] bool has_more() const noexcept;
  [[nodiscard]] bool has_overflown() const noexcept;

  /// How many completions there are.
  [[nodiscard]] unsigned completions() const noexcept {
    return std::atomic_ref(*ring_.cq.ktail).load(std::memory_order_relaxed) - *ring_.cq.khead;
  }
  /// The oldest completion, or null; advance() gives its place back.
  io_uring_cqe* peek() noexcept;
  void advance() noexcept;
  /// Gives each completion that is there now to `f`, the oldest first, until that says false, of one that
  /// stays. Their places are given back together: `f` takes none itself.
  template <class F> void take_while(F f) noexcept;

 private:
  int enter(unsigned wait_for, unsigned flags, void const* extra, std::size_t size) noexcept;
  int open_as(std::span<std::uint32_t const> wishes, unsigned entries, std::uint32_t features) noexcept;
  int unregister() noexcept;
  void keep_results() noexcept;

  io_uring ring_{};
  std::uint32_t flags_ = 0;
  int enter_fd_ = -1;
  unsigned fork_generation_ = 0;
  std::uint64_t registered_by_ = 0;
  int end_fd_ = -1;      // the near end of the pipe
  int results_fd_ = -1;  // a pipe that holds the pages of the queues
  unsigned nothing_ = 0; // the head and the tail of a queue that could not be replaced
  bool is_open_ = false;
  bool has_left_ = false;
  bool registered_ = false;
  bool no_iowait_ = false;
};

// For each operation or turn: worth inlining.

inline io_uring_sqe* ring::get() noexcept {
  io_uring_sqe* const e = get_for_all();
  if (e != nullptr) std::memset(e, 0, sizeof *e);
  return e;
}

inline io_uring_sqe* ring::get_for_all() noexcept {
  io_uring_sq& sq = ring_.sq;
  unsigned const head = std::atomic_ref(*sq.khead).load(std::memory_order_acquire);
  if (sq.sqe_tail - head >= sq.ring_entries) return nullptr;
  io_uring_sqe* const e = &sq.sqes[sq.sqe_tail & sq.ring_mask];
  ++sq.sqe_tail;
  return e;
}

inline io_uring_cqe* ring::peek() noexcept {
  io_uring_cq& cq = ring_.cq;
  unsigned const head = *cq.khead; // ours alone to write
  // Acquire: pairs with the kernel's release of the tail; the completion is read after it.
  if (head == std::atomic_ref(*cq.ktail).load(std::memory_order_acquire)) return nullptr;
  return &cq.cqes[head & cq.ring_mask];
}

inline void ring::advance() noexcept {
  // Release: the kernel may write over the completion from now on; what was in it has been read.
  std::atomic_ref(*ring_.cq.khead).store(*ring_.cq.khead + 1, std::memory_order_release);
}

template <class F> void ring::take_while(F f) noexcept {
  io_uring_cq const& cq = ring_.cq;
  io_uring_cqe const* const all = cq.cqes;
  unsigned const mask = cq.ring_mask;
  unsigned head = *cq.khead;
  unsigned const tail = std::atomic_ref(*cq.ktail).load(std::memory_order_acquire); // as in peek()
  while (head != tail && f(all[head & mask])) ++head;
  std::atomic_ref(*cq.khead).store(head, std::memory_order_release); // as in advance()
}

inline int ring::enter(unsigned wait_for, std::int64_t timeout_ns) noexcept {
  unsigned flags = IORING_ENTER_GETEVENTS;
  if (wait_for != 0) flags |= no_iowait_ * sys::enter_no_iowait;
  if (wait_for == 0 || timeout_ns < 0) return enter(wait_for, flags, nullptr, 0);
  __kernel_timespec const timeout{.tv_sec = timeout_ns / 1'000'000'000,
                                  .tv_nsec = timeout_ns % 1'000'000'000};
  io_uring_getevents_arg argument{};
  argument.ts = reinterpret_cast<std::uintptr_t>(&timeout);
  return enter(wait_for, flags | IORING_ENTER_EXT_ARG, &argument, sizeof argument);
}

inline int ring::submit() noexcept { return enter(0, 0, nullptr, 0); }

inline int ring::enter(unsigned wait_for, unsigned flags, void const* extra, std::size_t size) noexcept {
  io_uring_sq& sq = ring_.sq;
  unsigned const n = unsubmitted();
  // Release: pairs with the kernel's acquire of the tail; the entries are written before it.
  std::atomic_ref(*sq.ktail).store(sq.sqe_tail, std::memory_order_release);
  flags |= registered_ * IORING_ENTER_REGISTERED_RING; // no branch: g++ would multiply the paths
  std::int64_t const r = sys::kernel_answers()
                             ? sys::kernel_calls::io_uring_enter(enter_fd_, n, wait_for, flags, extra, size)
                             : sys::io_uring_enter(enter_fd_, n, wait_for, flags, extra, size);
  // Whatever was said, the head tells what the kernel took: an error does not mean that it took nothing
  // (tokio#8185).
  sq.sqe_head = std::atomic_ref(*sq.khead).load(std::memory_order_acquire);
  return r < 0 && r != -ETIME && r != -EINTR ? static_cast<int>(r) : 0;
}

inline bool ring::needs_enter() const noexcept {
  unsigned const flags = std::atomic_ref(*ring_.sq.kflags).load(std::memory_order_acquire);
  if ((flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0) return true;
  return !has(IORING_SETUP_TASKRUN_FLAG); // without the flag only entering tells
}

inline bool ring::has_more() const noexcept {
  return (std::atomic_ref(*ring_.sq.kflags).load(std::memory_order_acquire) & IORING_SQ_TASKRUN) != 0;
}

inline bool ring::has_overflown() const noexcept {
  return (std::atomic_ref(*ring_.sq.kflags).load(std::memory_order_relaxed) & IORING_SQ_CQ_OVERFLOW) != 0;
}

} // namespace unio::driver
