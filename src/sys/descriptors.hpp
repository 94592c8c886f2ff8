// src/sys/descriptors.hpp: what the process knows about descriptor numbers, beyond what the kernel keeps.
//
//   above_standard   keeps 0, 1 and 2 free of what unio opens
//   generation       tells a number from the same number after it was closed and taken again
//   in_flight        how many operations some driver holds on a number, and a thread's way to wait for their
//                    end
//   uninterrupted    a system call that is not to end because of a signal
//
// The table is static and indexed by the number, so that neither looking nor counting allocates or locks.
// Numbers above its size (more than a million open descriptors; simulated ones) share entries with smaller
// ones. That is harmless: a generation that changed too often or a count that is too high only makes its
// reader look more closely.

#pragma once

#include "sys/calls.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace unio::sys {

/// Takes a fresh descriptor, or a negative code, which it returns as it is. Returns the descriptor, moved if
/// it was 0, 1 or 2; if it cannot be moved it is closed and the code says why.
int above_standard(std::int64_t fd) noexcept;

// Plain numbers, reached through std::atomic_ref: an array of a million std::atomic would be filled at run
// time by compilers that give up on evaluating its constructors.
struct descriptor_state {
  std::uint32_t generation; // changes each time a handle gives the number up
  std::uint32_t in_flight;  // operations that some driver holds on the number; awaited_bit
  std::uint32_t waited;     // directions in which the last blocking call had to wait
};
inline constexpr std::uint32_t waited_in = 1, waited_out = 2;

inline constexpr unsigned descriptor_table_size = 1U << 20;
extern descriptor_state descriptor_table[descriptor_table_size];

inline descriptor_state& state_of(int fd) noexcept {
  return descriptor_table[static_cast<unsigned>(fd) & (descriptor_table_size - 1)];
}

/// Acquire; pairs with the release in bump_generation, so that who sees the new generation also sees what was
/// done to the old descriptor.
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

/// Whether its bytes go past the page cache (O_DIRECT): then each attempt waits for the device, RWF_NOWAIT or
/// not. Noted by whoever makes a handle of it, forgotten with the number.
inline constexpr std::uint32_t direct_bit = 1U << 31;
inline void note_direct(int fd) noexcept { note_waited(fd, direct_bit, true); }
inline bool is_direct(int fd) noexcept { return last_waited(fd, direct_bit); }

/// Whether it is a file that was taken in with O_NONBLOCK: a ring then believes that its filesystem can do
/// without waiting, and reads and writes in the caller's context (io_uring/rw.c, io_file_supports_nowait).
/// Noted and forgotten in the same way.
inline constexpr std::uint32_t nonblocking_bit = 1U << 30;
inline void note_nonblocking(int fd) noexcept { note_waited(fd, nonblocking_bit, true); }
inline bool is_nonblocking(int fd) noexcept { return last_waited(fd, nonblocking_bit); }

/// `copy` is another descriptor of what `original` is one of.
inline void note_duplicate(int copy, int original) noexcept {
  if (is_direct(original)) note_direct(copy);
  if (is_nonblocking(original)) note_nonblocking(copy);
}

/// Beside the count: a thread waits until it is 0.
inline constexpr std::uint32_t awaited_bit = 1U << 31;
/// Changes, with a wake-up, whenever a thread that closes a descriptor has to look again.
extern std::atomic<std::uint32_t> closing_news;
void tell_closing_threads() noexcept;

/// Acquire; pairs with the release in leave_flight, so that who sees 0 also sees what the operations did.
inline std::uint32_t in_flight(int fd) noexcept {
  return fd < 0 ? 0 : std::atomic_ref(state_of(fd).in_flight).load(std::memory_order_acquire) & ~awaited_bit;
}
inline void enter_flight(int fd) noexcept {
  if (fd >= 0) std::atomic_ref(state_of(fd).in_flight).fetch_add(1, std::memory_order_relaxed);
}
inline void leave_flight(int fd) noexcept {
  if (fd < 0) return;
  std::uint32_t const before =
      std::atomic_ref(state_of(fd).in_flight).fetch_sub(1, std::memory_order_release);
  if ((before & awaited_bit) != 0) [[unlikely]]
    tell_closing_threads();
}
/// From here on each operation that leaves changes closing_news. An operation that has left before is seen by
/// in_flight().
inline void await_landings(int fd) noexcept {
  if (fd >= 0) std::atomic_ref(state_of(fd).in_flight).fetch_or(awaited_bit, std::memory_order_acquire);
}
inline void stop_awaiting_landings(int fd) noexcept {
  if (fd >= 0) std::atomic_ref(state_of(fd).in_flight).fetch_and(~awaited_bit, std::memory_order_relaxed);
}

/// Calls `call()`, a system call, until it returns something else than -EINTR.
template <class Call> std::int64_t uninterrupted(Call call) noexcept {
  for (;;) {
    std::int64_t const r = call();
    if (r != -EINTR) return r;
  }
}

} // namespace unio::sys
