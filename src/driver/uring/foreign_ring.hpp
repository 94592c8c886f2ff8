// src/driver/uring/foreign_ring.hpp: the ring of a foreign_reactor, and how its requests are taken back.
//
//   deferred      while one thread runs the reactor: what the kernel has to do for a completion it does when
//                 that thread enters, instead of interrupting it. Only that thread may enter or cancel.
//   cooperative   where the kernel is too old for the other
//   common        for several threads
//
// A request keeps its descriptor open, so it has to be gone before foreign code closes the number. Of a
// deferred ring the thread that runs it drops it, with one system call; another thread has to have the ring
// given up. Of the others any thread does, by IORING_REGISTER_SYNC_CANCEL (Linux 6.0). The thread that had
// submitted the request drops it on its way back to user space: where that is the caller, it has done so
// when the call returns; otherwise within microseconds, or at its next tick if it is computing.

#pragma once

#include "core/thread_token.hpp"
#include "driver/foreign/foreign.hpp"
#include "driver/uring/ring.hpp"

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace unio::inline v0_1::driver {

class foreign_ring {
 public:
  /// Of what is no request.
  static constexpr std::uint64_t ignored_tag = 1;

  /// Returns 0 or -errno.
  int open(unsigned entries, foreign_use use) noexcept;
  [[nodiscard]] bool is_deferred() const noexcept { return kernel.has(IORING_SETUP_DEFER_TASKRUN); }
  /// Whether the calling thread cannot take back what it has: another one runs it.
  [[nodiscard]] bool is_of_another() const noexcept {
    void const* const owner = owner_.load(std::memory_order_relaxed);
    return owner != nullptr && owner != this_thread_token();
  }
  /// The calling thread runs a deferred ring from now on. Returns 0 or -errno.
  int begin() noexcept;

  /// Asks for a report of each edge, by the thread that waits. False: the kernel takes no more at the moment.
  bool watch(int fd, unsigned mask, std::uint64_t tag) noexcept;
  /// Drops requests. Preconditions: not is_of_another(). Returns 0, or -errno: of a deferred ring they may be
  /// there yet.
  int drop(std::initializer_list<std::uint64_t> tags) noexcept { return drop(tags, 0, true); }
  /// The same, and not until a thread of the kernel that performs one has ended.
  int drop_soon(std::uint64_t tag) noexcept { return drop({tag}, 0, false); }
  int drop_all(bool waits) noexcept {
    return drop({0}, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL, waits);
  }
  /// One request of a ring that is not deferred, from any thread. -ENOENT: there is none, or no longer.
  static int drop_of(int ring_fd, std::uint64_t tag, std::uint32_t flags = 0, bool waits = true) noexcept;

  ring kernel;

 private:
  int drop(std::initializer_list<std::uint64_t> tags, std::uint32_t flags, bool waits) noexcept;

  // Null: none yet, or it is not deferred. Written before the first request is submitted.
  std::atomic<void const*> owner_{nullptr};
};

} // namespace unio::driver
