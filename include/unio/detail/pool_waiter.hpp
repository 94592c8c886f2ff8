// unio/detail/pool_waiter.hpp: an operation's place in the queue for a buffer; what a ring has read for it.
//
// Here because it is a part of async_receive, and the compiler needs its layout.

#pragma once

#include <unio/executor.hpp>

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
/// operation's multiplexer or, of a blocking call, wakes the thread.
struct pool_waiter : work {
  /// `f` is called on the operation's thread once a buffer is granted.
  explicit pool_waiter(function f) noexcept : work(f) {}
  // A description is moved before it waits for anything.
  pool_waiter(pool_waiter const& other) noexcept : work(other) {}
  pool_waiter& operator=(pool_waiter const&) noexcept { return *this; }

  pool_waiter* next_waiter = nullptr;
  pool_waiter* previous_waiter = nullptr;
  io_multiplexer* runs = nullptr;           // null: a thread that blocks
  std::atomic<std::byte*> granted{nullptr}; // the buffer
  bool is_posted = false;                   // and it has not run
  std::atomic<std::uint32_t> woken{0};      // futex
  arrivals arrived;
};

} // namespace unio::detail
