// unio/detail/lent_queue.hpp: buffers that were received and not asked for yet.

#pragma once

#include <unio/buffer_pool.hpp>
#include <unio/frames.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace unio::inline v0_1::detail {

/// At most `capacity` of them, first in, first out, in a block of the frame pool.
class lent_queue {
 public:
  explicit lent_queue(std::size_t capacity)
      : places_(static_cast<lent_buffer*>(frame_pool::allocate(capacity * sizeof(lent_buffer)))),
        capacity_(capacity) {}
  lent_queue(lent_queue const&) = delete;
  lent_queue& operator=(lent_queue const&) = delete;
  ~lent_queue() {
    while (size_ != 0) (void)pop();
    frame_pool::deallocate(places_, capacity_ * sizeof(lent_buffer));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_full() const noexcept { return size_ == capacity_; }
  void push(lent_buffer b) noexcept {
    new (places_ + (first_ + size_++) % capacity_) lent_buffer(std::move(b));
  }
  [[nodiscard]] lent_buffer pop() noexcept {
    lent_buffer b = std::move(places_[first_]);
    places_[first_].~lent_buffer();
    first_ = (first_ + 1) % capacity_;
    --size_;
    return b;
  }

 private:
  lent_buffer* places_;
  std::size_t capacity_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

} // namespace unio::detail
