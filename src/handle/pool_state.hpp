// src/handle/pool_state.hpp: the buffers of a pool, and the operations that wait for one.
//
//   give_back ──► the first waiter, if there is one: granted, and its multiplexer is informed
//             └─► free ──► take
//
// A buffer that comes back while operations wait is granted to the first of them; it is never free in
// between, so that none overtakes. All of it is under one lock, which is held for a few instructions; if
// another thread's multiplexer has to be woken, for that call too.
//
// Rings. The buffers that stand in a ring's slots are not of those that the pool has to lend: each ring
// brings as many with it. So an idle ring keeps none from anybody, and nothing has to be asked back. What a
// ring has filled is lent like any other, when fewer than count() are lent; its slot gets a free one then.
// All in all there are count() buffers and one for each slot: lent, free, in slots, or read by a ring and not
// yet lent.
//
// The end. An operation may be started, or go on, after its pool has ended: that is an error, and must not
// read what was freed. So the buffers go, but this object stays, and has none to lend. Pools that are made
// later use it again, the one that ended first, once there are more than 64.

#pragma once

#include "driver/buffer_slots.hpp"
#include "sys/short_lock.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/detail/pool_waiter.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace unio::inline v0_1::detail {

class pool_state final : public driver::buffer_source {
 public:
  /// Null: no memory.
  static pool_state* make(std::size_t count, std::size_t size, pool_memory memory) noexcept;
  /// The pool has ended; the last buffer to come back ends this, or the last ring to give its slots back.
  void close() noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_registered() const noexcept { return offers_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t lent() const noexcept { return lent_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t waits() noexcept;

  /// Null: all are lent, or others wait for one.
  std::byte* take() noexcept;
  void give_back(std::byte* buffer) noexcept;
  /// As its user has it.
  [[nodiscard]] lent_buffer lend(std::byte* buffer, std::size_t bytes) noexcept {
    return {*this, buffer, bytes};
  }

  /// Whether one could be lent now, as far as this thread knows.
  [[nodiscard]] bool has_one() const noexcept { return lent_.load(std::memory_order_relaxed) < count_; }

  driver::buffer_slots* join() noexcept override;
  void refill(driver::buffer_slots& slots) noexcept override;
  void leave(driver::buffer_slots& slots, bool is_known) noexcept override;
  [[nodiscard]] bool has_ended() const noexcept override { return closed_.load(std::memory_order_relaxed); }
  /// Lends the first of the buffers that a ring has filled for `w`, whose slot is empty then. Null: too many
  /// are lent, unless `w` was granted one, in place of which it is lent, or the pool has ended, or
  /// `in_any_case`.
  std::byte* lend_arrived(pool_waiter& w, bool in_any_case) noexcept;

  /// False: there is one again, or there will never be one; nothing was queued.
  [[nodiscard]] bool enqueue(async_receive& w, bool waits_in_call) noexcept;
  /// False: it has been granted one, and its multiplexer has been informed.
  [[nodiscard]] bool dequeue(async_receive& w) noexcept;

 private:
  struct ended_ones;
  pool_state() = default;
  ~pool_state() = default;
  void destroy() noexcept;
  void release() noexcept;
  [[gnu::noinline]] void fill(driver::buffer_slots& slots) noexcept;
  [[gnu::noinline]] void end_if_last() noexcept;
  [[gnu::noinline]] void grant_first(std::byte* buffer) noexcept;
  [[nodiscard]] std::size_t max_free() const noexcept;
  void unlink(async_receive& w) noexcept;
  void offer(std::byte* at, std::size_t bytes) noexcept;
  void unmap(std::byte* at, std::size_t bytes) const noexcept;
  driver::buffer_slots* make_slots() noexcept;
  void set_lent(std::size_t n) noexcept { lent_.store(n, std::memory_order_relaxed); }

  sys::short_lock lock_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> offers_{false}; // its memory to rings, all of it
  bool registered_ = false;         // as its user wants it
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::size_t stride_ = 0;
  std::atomic<std::size_t> lent_{0}; // changed under the lock
  std::size_t free_count_ = 0;
  std::byte** free_ = nullptr; // the last one that came back is lent next: it is in the caches
  async_receive* first_ = nullptr;
  async_receive* last_ = nullptr;
  std::uint64_t waits_ = 0;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;                 // of memory_
  driver::buffer_slots* slots_ = nullptr; // of all rings
  int rings_ = 0;                         // that use some
  int made_ = 0;                          // slots of so many rings
  pool_state* next_ended_ = nullptr;
};

// For each value that a ring has read: worth inlining. It locks first: it has nothing to keep then.
inline std::byte* pool_state::lend_arrived(pool_waiter& w, bool in_any_case) noexcept {
  std::lock_guard const lock(lock_);
  if (std::byte* const granted = w.take_granted(); granted != nullptr) [[unlikely]] {
    free_[free_count_++] = granted;
  } else if (has_one() || in_any_case || has_ended()) [[likely]] {
    set_lent(lent() + 1);
  } else {
    return nullptr;
  }
  return w.arrived.slots->take(w.arrived.first);
}

} // namespace unio::detail
