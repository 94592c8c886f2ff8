// unio/detail/lent_queue.hpp: buffers that were received and not asked for yet.

#pragma once

#include <unio/buffer_pool.hpp>
#include <unio/frames.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace unio::inline v0_1::detail {

/// At most `capacity` of them, first in, first out, in a block of the frame pool.
///
/// Thread safety  one thread pushes at a time, and one asks and pops, which may be another
class lent_queue {
 public:
  explicit lent_queue(std::size_t capacity)
      : places_(static_cast<lent_buffer*>(frame_pool::allocate(capacity * sizeof(lent_buffer)))),
        capacity_(capacity) {}
  lent_queue(lent_queue const&) = delete;
  lent_queue& operator=(lent_queue const&) = delete;
  ~lent_queue() {
    for (lent_buffer b; !empty(); b.reset()) pop(b);
    frame_pool::deallocate(places_, capacity_ * sizeof(lent_buffer));
  }

  // Each count pairs its release with an acquire of the other thread's: what is in a place, and that it is
  // free.
  [[nodiscard]] std::size_t size() const noexcept {
    return pushed_.load(std::memory_order_acquire) - popped_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Preconditions: size() is not `capacity`.
  void push(lent_buffer b) noexcept {
    std::size_t const n = pushed_.load(std::memory_order_relaxed);
    new (places_ + n % capacity_) lent_buffer(std::move(b));
    pushed_.store(n + 1, std::memory_order_release);
  }
  /// Preconditions: not empty; nor has `to` a buffer.
  void pop(lent_buffer& to) noexcept {
    std::size_t const n = popped_.load(std::memory_order_relaxed);
    to = std::move(places_[n % capacity_]);
    popped_.store(n + 1, std::memory_order_release);
  }

 private:
  lent_buffer* places_;
  std::size_t capacity_;
  std::atomic<std::size_t> pushed_{0}; // since it was made
  std::atomic<std::size_t> popped_{0};
};

} // namespace unio::detail
