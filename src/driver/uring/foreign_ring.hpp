// src/driver/uring/foreign_ring.hpp: the ring of a foreign_reactor, and how its requests are taken back.
//
// It is deferred: what the kernel has to do for a completion it does when the one thread that runs the
// reactor enters, instead of interrupting it. Only that thread may enter or cancel.
//
// A request keeps its descriptor open, so it has to be gone before foreign code closes the number. The thread
// that runs the ring drops it, with one system call; another thread has to have the ring given up.

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
  int open(unsigned entries) noexcept;
  /// Whether the calling thread cannot take back what it has: another one runs it.
  [[nodiscard]] bool is_of_another() const noexcept {
    void const* const owner = owner_.load(std::memory_order_relaxed);
    return owner != nullptr && owner != this_thread_token();
  }
  /// The calling thread runs it from now on. Returns 0 or -errno.
  int begin() noexcept;

  /// Asks for a report of each edge, by the thread that waits. False: the kernel takes no more at the moment.
  bool watch(int fd, unsigned mask, std::uint64_t tag) noexcept;
  /// Drops requests. Preconditions: not is_of_another(). Returns 0, or -errno: then they may be there
  /// yet.
  int drop(std::initializer_list<std::uint64_t> tags) noexcept { return drop(tags, 0); }
  int drop_all() noexcept { return drop({0}, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL); }

  ring kernel;

 private:
  int drop(std::initializer_list<std::uint64_t> tags, std::uint32_t flags) noexcept;

  // Null: none yet. Written before the first request is submitted.
  std::atomic<void const*> owner_{nullptr};
};

} // namespace unio::driver
