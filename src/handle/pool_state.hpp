// src/handle/pool_state.hpp: the buffers of a pool, and the operations that wait for one.
//
//   give_back ──► the first waiter, if there is one: granted, and its multiplexer is informed
//             └─► free ──► take
//
// A buffer that comes back while operations wait is granted to the first of them; it is never free in
// between, so that none overtakes. All of it is under one lock, which is held for a few instructions; if
// another thread's multiplexer has to be woken, for that call too.

#pragma once

#include "sys/short_lock.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/detail/pool_waiter.hpp>

#include <cstddef>
#include <cstdint>

namespace unio::detail {

class pool_state {
 public:
  /// Null: no memory.
  static pool_state* make(std::size_t count, std::size_t size) noexcept;
  /// The pool has ended; the last buffer to come back ends this.
  void close() noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t lent() noexcept;
  [[nodiscard]] std::uint64_t waits() noexcept;

  /// Null: all are lent, or others wait for one.
  std::byte* take() noexcept;
  void give_back(std::byte* buffer) noexcept;
  /// As its user has it.
  [[nodiscard]] lent_buffer lend(std::byte* buffer, std::size_t bytes) noexcept {
    return {*this, buffer, bytes};
  }

  /// False: there is one again; nothing was queued.
  [[nodiscard]] bool enqueue(pool_waiter& w) noexcept;
  /// False: it has been granted one, and its multiplexer has been informed.
  [[nodiscard]] bool dequeue(pool_waiter& w) noexcept;

 private:
  pool_state() = default;
  ~pool_state() = default;
  void destroy() noexcept;
  void unlink(pool_waiter& w) noexcept;

  sys::short_lock lock_;
  bool closed_ = false;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::size_t free_count_ = 0;
  std::byte** free_ = nullptr; // the last one that came back is lent next: it is in the caches
  pool_waiter* first_ = nullptr;
  pool_waiter* last_ = nullptr;
  std::uint64_t waits_ = 0;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0; // of memory_
};

} // namespace unio::detail
