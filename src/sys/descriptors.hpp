// src/sys/descriptors.hpp: what the process knows about descriptor numbers, beyond what the kernel keeps.
//
//   above_standard   keeps unio's descriptors off the numbers 0, 1 and 2
//   generation       tells a number from the same number after it was closed and reused
//   in_flight        how many operations drivers hold on a number, and how a thread waits for their end
//   uninterrupted    a system call that is repeated if a signal interrupts it
//
// The table is static and indexed by the number, so that neither looking nor counting allocates or locks.
// Numbers above its size (more than a million open descriptors; simulated ones) share entries with smaller
// ones. That is harmless: a generation that changed too often or a count that is too high only makes its
// reader look more closely.

#pragma once

#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <fcntl.h>

#include <atomic>

namespace unio::inline v0_1::sys {

/// Takes a fresh descriptor, or a negative code, which it returns. Returns the descriptor, moved if it was 0,
/// 1 or 2; if it cannot be moved it is closed and the code says why.
UNIO_API int above_standard(std::int64_t fd) noexcept;

// Plain numbers, accessed through std::atomic_ref: compilers that give up on evaluating a million std::atomic
// constructors would fill the array at run time.
struct descriptor_state {
  std::uint32_t generation; // changes each time a handle closes or releases the number
  std::uint32_t waited;     // directions in which the last blocking call had to wait
  std::uint64_t in_flight;  // operations that drivers hold on the number; awaited_bit; whose they are
};
inline constexpr std::uint32_t waited_in = 1, waited_out = 2;

inline constexpr unsigned descriptor_table_size = 1U << 20;
extern descriptor_state descriptor_table[descriptor_table_size];

inline descriptor_state& state_of(int fd) noexcept {
  return descriptor_table[static_cast<unsigned>(fd) & (descriptor_table_size - 1)];
}

/// Acquire; pairs with the release in bump_generation, so that what was done to the old descriptor is
/// visible.
inline std::uint32_t generation(int fd) noexcept {
  return fd < 0 ? 0 : std::atomic_ref(state_of(fd).generation).load(std::memory_order_acquire);
}
inline void bump_generation(int fd) noexcept {
  if (fd < 0) return;
  std::atomic_ref(state_of(fd).waited).store(0, std::memory_order_relaxed);
  std::atomic_ref(state_of(fd).generation).fetch_add(1, std::memory_order_release);
}

/// A hint, so relaxed: a wrong one costs a system call.
inline bool last_waited(int fd, std::uint32_t direction_bit) noexcept {
  return fd >= 0 &&
         (std::atomic_ref(state_of(fd).waited).load(std::memory_order_relaxed) & direction_bit) != 0;
}
inline void note_waited(int fd, std::uint32_t direction_bit, bool waited) noexcept {
  if (fd < 0) return;
  std::atomic_ref hint(state_of(fd).waited);
  if (waited) {
    hint.fetch_or(direction_bit, std::memory_order_relaxed);
  } else {
    hint.fetch_and(~direction_bit, std::memory_order_relaxed);
  }
}

/// Whether its bytes bypass the page cache (O_DIRECT): then each attempt waits for the device, RWF_NOWAIT or
/// not. Noted when a handle is made, cleared with the number. The function is where such reads are
/// (driver/epoll/direct_reads.cpp), so that programs that note none have none of them.
inline constexpr std::uint32_t direct_bit = 1U << 31;
void note_direct(int fd) noexcept;
inline bool is_direct(int fd) noexcept { return last_waited(fd, direct_bit); }

/// Whether it is a file that was adopted with O_NONBLOCK: a ring then assumes that its filesystem never
/// waits, and reads and writes in the caller's context (io_uring/rw.c, io_file_supports_nowait). Noted and
/// cleared likewise.
inline constexpr std::uint32_t nonblocking_bit = 1U << 30;
inline void note_nonblocking(int fd) noexcept { note_waited(fd, nonblocking_bit, true); }
inline bool is_nonblocking(int fd) noexcept { return last_waited(fd, nonblocking_bit); }

/// Whether each write goes to the end of the file (O_APPEND), so that it cannot be made again. Noted and
/// cleared likewise.
inline constexpr std::uint32_t appending_bit = 1U << 26;
inline bool is_appending(int fd) noexcept { return last_waited(fd, appending_bit); }

/// Whether the kernel has refused to read it while the thread does something else (sys/direct_reads.hpp).
/// Noted when it has, cleared likewise.
inline constexpr std::uint32_t read_by_threads_bit = 1U << 25;
inline void note_read_by_threads(int fd) noexcept { note_waited(fd, read_by_threads_bit, true); }
inline bool is_read_by_threads(int fd) noexcept { return last_waited(fd, read_by_threads_bit); }

/// Whether its name goes when its handle is closed, and is this process's: a child of fork has a copy of the
/// handle, and its parent the file. Noted when a handle is made, cleared likewise, and in children.
inline constexpr std::uint32_t named_bit = 1U << 19;
inline constinit std::atomic<int> named_end{0}; // entries below may have it
inline void note_named(int fd) noexcept {
  note_waited(fd, named_bit, true);
  int const end = static_cast<int>(static_cast<unsigned>(fd) & (descriptor_table_size - 1)) + 1;
  int found = named_end.load(std::memory_order_relaxed);
  while (found < end && !named_end.compare_exchange_weak(found, end, std::memory_order_relaxed)) continue;
}
inline bool is_named(int fd) noexcept { return last_waited(fd, named_bit); }

/// Notes what `flags` (O_) say of a file's descriptor, all but O_NONBLOCK.
inline void note_file_flags(int fd, std::int64_t flags) noexcept {
  if ((flags & O_DIRECT) != 0) note_direct(fd);
  if ((flags & O_APPEND) != 0) note_waited(fd, appending_bit, true);
}

/// What was learnt of a datagram socket: that it cannot cut a send into segments, that it refuses to mark
/// congestion, that it queues the errors of what it has sent, and that it may have a traffic class, which a
/// mark of congestion would replace. Noted and cleared likewise.
inline constexpr std::uint32_t sends_singly_bit = 1U << 29;
inline constexpr std::uint32_t refuses_ecn_bit = 1U << 28;
inline constexpr std::uint32_t queues_errors_bit = 1U << 27;
inline constexpr std::uint32_t traffic_class_bit = 1U << 24;
/// That poll(2) was heard to say of a socket, whichever it is, that nothing more comes in (POLLRDHUP).
inline constexpr std::uint32_t shut_down_bit = 1U << 23;
/// Whether a ring of a foreign_reactor may watch the number. Noted and cleared with the watch.
inline constexpr std::uint32_t watched_bit = 1U << 22;

/// `copy` is a duplicate of `original`.
inline void note_duplicate(int copy, int original) noexcept {
  for (std::uint32_t const bit : {direct_bit, nonblocking_bit, appending_bit, sends_singly_bit,
                                  refuses_ecn_bit, queues_errors_bit, traffic_class_bit, shut_down_bit})
    if (last_waited(original, bit)) note_waited(copy, bit, true);
}

// The count of what is in flight belongs to one process: what a child of fork finds there is its parent's,
// and never ends in the child. So the upper half says whose it is, by fork_generation().
inline constexpr std::uint64_t count_mask = (1ULL << 31) - 1;
/// A bit next to the count: a thread waits until the count is 0.
inline constexpr std::uint64_t awaited_bit = 1ULL << 31;

inline std::uint64_t none_in_flight() noexcept { return std::uint64_t{fork_generation()} << 32; }
constexpr bool is_same_process(std::uint64_t a, std::uint64_t b) noexcept { return a >> 32 == b >> 32; }

/// Makes the count this process's own.
inline std::atomic_ref<std::uint64_t> own_count(int fd) noexcept {
  std::atomic_ref count(state_of(fd).in_flight);
  std::uint64_t found = count.load(std::memory_order_relaxed);
  std::uint64_t const none = none_in_flight();
  while (!is_same_process(found, none)) [[unlikely]]
    if (count.compare_exchange_weak(found, none, std::memory_order_relaxed)) break;
  return count;
}

/// Changes, with a wake-up, whenever a thread that closes a descriptor must look again.
extern std::atomic<std::uint32_t> closing_news;
void tell_closing_threads() noexcept;

/// Acquire; pairs with the release in leave_flight, so that at 0 the effects of the operations are visible.
inline std::uint64_t in_flight(int fd) noexcept {
  if (fd < 0) return 0;
  std::uint64_t const count = std::atomic_ref(state_of(fd).in_flight).load(std::memory_order_acquire);
  return is_same_process(count, none_in_flight()) ? count & count_mask : 0;
}
/// Whether a thread waits for them. Acquire; pairs with the release of the lock under which it has said so.
inline bool is_awaited(int fd) noexcept {
  if (fd < 0) return false;
  std::uint64_t const count = std::atomic_ref(state_of(fd).in_flight).load(std::memory_order_acquire);
  return is_same_process(count, none_in_flight()) && (count & awaited_bit) != 0;
}
inline void enter_flight(int fd) noexcept {
  if (fd >= 0) own_count(fd).fetch_add(1, std::memory_order_relaxed);
}
inline void leave_flight(int fd) noexcept {
  if (fd < 0) return;
  std::uint64_t const before =
      std::atomic_ref(state_of(fd).in_flight).fetch_sub(1, std::memory_order_release);
  if ((before & awaited_bit) != 0) [[unlikely]]
    tell_closing_threads();
}
/// From here on each operation that leaves changes closing_news. in_flight() shows those that left before.
inline void await_landings(int fd) noexcept {
  if (fd >= 0) own_count(fd).fetch_or(awaited_bit, std::memory_order_acquire);
}
inline void stop_awaiting_landings(int fd) noexcept {
  if (fd >= 0) own_count(fd).fetch_and(~awaited_bit, std::memory_order_relaxed);
}

/// Whether a poll for reading would report something now.
bool is_readable(int fd) noexcept;

/// Calls `call()`, a system call, until it returns something else than -EINTR.
template <class Call> std::int64_t uninterrupted(Call call) noexcept {
  for (;;) {
    std::int64_t const r = call();
    if (r != -EINTR) return r;
  }
}

} // namespace unio::sys
