// unio/detail/pool_waiter.hpp: an operation's place in the queue for a buffer; what a ring has read for it.
//
// Here because it is a part of async_receive, and the compiler needs its layout.

#pragma once

#include <unio/config.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1 {
class async_receive;
namespace driver {
class buffer_slots;
}
} // namespace unio

namespace unio::inline v0_1::detail {

/// What a ring has read and its receiver does not have yet: slots, in the order in which they were filled.
struct arrivals {
  static constexpr int not_ended = 1;
  driver::buffer_slots* slots = nullptr; // null: nothing
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  int end = not_ended; // what comes after them: 0 or -errno
};

/// Queued by the operation's thread; the thread that gives a buffer back grants it, and posts work to the
/// operation's multiplexer or, of a blocking call, wakes the thread. All of it in one word, and in the links
/// that the operation has for a driver's queue, of which it is in none then: the next in this one, and then
/// the work.
class pool_waiter {
 public:
  pool_waiter() = default;
  // A description is moved before it waits for anything.
  pool_waiter(pool_waiter&& other) noexcept : place_(other.place_.exchange(0, std::memory_order_relaxed)) {}
  pool_waiter& operator=(pool_waiter&& other) noexcept {
    place_.store(other.place_.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }

  /// Acquire; pairs with the release in grant().
  [[nodiscard]] bool is_granted() const noexcept {
    std::uintptr_t const is = place();
    return is != 0 && (is & (in_queue | filled)) == 0;
  }
  /// The buffer, or null.
  [[nodiscard]] std::byte* take_granted() noexcept { return is_granted() ? take() : nullptr; }
  /// Whether work was posted that has not run: it has, or was taken back.
  [[nodiscard]] bool take_posted() noexcept {
    return is_granted() && (place_.fetch_and(~posted, std::memory_order_relaxed) & posted) != 0;
  }

  // What was read into a buffer, until result() takes it.

  void fill(std::byte* buffer) noexcept { place_.store(bits(buffer) | filled, std::memory_order_relaxed); }
  /// The buffer, or null.
  [[nodiscard]] std::byte* take_filled() noexcept {
    return (place_.load(std::memory_order_relaxed) & filled) != 0 ? take() : nullptr;
  }

  // For a call that blocks.

  /// The word that another thread changes when it grants a buffer, for futex(2).
  [[nodiscard]] std::uint32_t* word() noexcept {
    return reinterpret_cast<std::uint32_t*>(&place_) + (std::endian::native == std::endian::big);
  }
  [[nodiscard]] std::uintptr_t place() const noexcept { return place_.load(std::memory_order_acquire); }

  // For the pool, under its lock.

  void grant(std::byte* buffer) noexcept {
    place_.store(bits(buffer) | (blocks() ? 0 : posted), std::memory_order_release);
  }
  void leave() noexcept { place_.store(0, std::memory_order_relaxed); }
  void stand_behind(async_receive* before, bool waits_in_call) noexcept {
    place_.store(bits(before) | in_queue | (waits_in_call ? in_call : 0), std::memory_order_relaxed);
  }
  [[nodiscard]] async_receive* previous_waiter() const noexcept {
    return reinterpret_cast<async_receive*>(place_.load(std::memory_order_relaxed) & ~all_bits);
  }
  /// Its thread waits in a blocking call.
  [[nodiscard]] bool blocks() const noexcept {
    return (place_.load(std::memory_order_relaxed) & in_call) != 0;
  }

  arrivals arrived;

 private:
  template <class T> static std::uintptr_t bits(T* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }
  // Of one that was granted or filled, and is in no queue: no other thread writes it.
  std::byte* take() noexcept {
    std::uintptr_t const was = place_.load(std::memory_order_relaxed);
    place_.store(0, std::memory_order_relaxed);
    return reinterpret_cast<std::byte*>(was & ~all_bits);
  }

  static constexpr std::uintptr_t in_queue = 1, in_call = 2, posted = 2, filled = 4, all_bits = 7;
  /// The waiter before this one, and in_queue; a buffer that was granted, or, with `filled`, has bytes; or 0.
  std::atomic<std::uintptr_t> place_{0};
};

} // namespace unio::detail
