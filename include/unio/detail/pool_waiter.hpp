// unio/detail/pool_waiter.hpp: an operation's place in the queue for a buffer; what a ring has read for it.
//
// Here because it is a part of async_receive, and the compiler needs its layout.

#pragma once

#include <unio/executor.hpp>
#include <unio/extend/operation_faces.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::driver {
class buffer_slots;
}

namespace unio::inline v0_1::detail {

class pool_state;

/// What a ring has read and its receiver does not have yet: slots, in the order in which they were filled.
struct arrivals {
  static constexpr int not_ended = 1;
  driver::buffer_slots* slots = nullptr; // null: nothing
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  int end = not_ended; // what comes after them: 0 or -errno
};

/// Queued by the operation's thread; the thread that gives a buffer back grants it, and posts this to the
/// operation's multiplexer or, of a blocking call, wakes the thread. `next` links the queue, and then what is
/// posted.
struct pool_waiter : work {
  /// `f` is called on the operation's thread once a buffer is granted.
  explicit pool_waiter(function f) noexcept : work(f) {}
  // A description is moved before it waits for anything.
  pool_waiter(pool_waiter const& other) noexcept : work(other) {}
  pool_waiter& operator=(pool_waiter const&) noexcept { return *this; }

  /// Acquire; pairs with the release in grant().
  [[nodiscard]] bool is_granted() const noexcept {
    std::uintptr_t const is = place.load(std::memory_order_acquire);
    return is != 0 && (is & in_queue) == 0;
  }
  /// The buffer, or null.
  [[nodiscard]] std::byte* take_granted() noexcept {
    return is_granted() ? reinterpret_cast<std::byte*>(place.exchange(0, std::memory_order_acquire))
                        : nullptr;
  }

  // For the pool, under its lock.

  void grant(std::byte* buffer) noexcept {
    place.store(reinterpret_cast<std::uintptr_t>(buffer), std::memory_order_release);
  }
  void leave() noexcept { place.store(0, std::memory_order_relaxed); }
  void stand_behind(pool_waiter* w) noexcept {
    place.store(reinterpret_cast<std::uintptr_t>(w) | in_queue, std::memory_order_relaxed);
  }
  [[nodiscard]] pool_waiter* previous_waiter() const noexcept {
    return reinterpret_cast<pool_waiter*>(place.load(std::memory_order_relaxed) & ~in_queue);
  }
  [[nodiscard]] pool_waiter* next_waiter() const noexcept { return static_cast<pool_waiter*>(next); }

  static constexpr std::uintptr_t in_queue = 1;
  /// In the queue: the waiter before this one, and in_queue. Otherwise the buffer that was granted, or 0.
  std::atomic<std::uintptr_t> place{0};
  std::atomic<std::uint32_t> woken{0};       // futex
  bool is_posted = false;                    // and it has not run
  bool blocks = false;                       // its thread waits in a blocking call
  readiness waits_for = readiness::readable; // of its operation: for its descriptor, or for a buffer
  arrivals arrived;
};

} // namespace unio::detail
