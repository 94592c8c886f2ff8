// unio/detail/sync.hpp: the queues of the classes of unio/sync.hpp.
//
//   permits            async_mutex, semaphore, auto_reset_event
//   event_queue        event
//   latch_queue        latch
//   rendezvous_queue   rendezvous
//
// Here because a call that need not wait should cost a few instructions. The rest is in src/coro/sync.cpp.

#pragma once

#include <unio/detail/waiting.hpp>

namespace unio::inline v0_1::detail {

/// A number of permits, and the coroutines that wait for some of them: a mutex has one permit.
class UNIO_API permits final : public wait_queue {
 public:
  static constexpr std::uint32_t max = (std::uint32_t(1) << 30) - 1;
  constexpr explicit permits(std::uint32_t n, std::uint32_t most = max) noexcept : wait_queue(n, most) {}

  bool try_acquire(std::uint32_t n) noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    while ((w & (bit_locked | bit_waiters)) == 0) {
      if (w / unit < n) return false;
      if (word_.compare_exchange_weak(w, w - n * unit, std::memory_order_acquire)) return true;
    }
    return try_acquire_contended(n);
  }
  void release(std::uint32_t n) noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    while ((w & (bit_locked | bit_waiters)) == 0 && n <= max - w / unit)
      if (word_.compare_exchange_weak(w, w + n * unit, std::memory_order_release)) return;
    release_contended(n);
  }

  // The next four are for a single permit. The compare-and-swap needs no load before it: the mutex is usually
  // free.
  bool try_lock() noexcept {
    std::uint32_t w = unit;
    if (word_.compare_exchange_strong(w, 0, std::memory_order_acquire)) [[likely]]
      return true;
    return (w & bit_locked) != 0 && try_acquire_contended(1);
  }
  void unlock() noexcept {
    std::uint32_t w = 0;
    if (!word_.compare_exchange_strong(w, unit, std::memory_order_release)) [[unlikely]]
      unlock_contended();
  }
  void set() noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    while ((w & (bit_locked | bit_waiters)) == 0)
      if (word_.compare_exchange_weak(w, unit, std::memory_order_release)) return;
    set_contended();
  }
  void reset() noexcept { (void)try_acquire(1); }

  [[nodiscard]] char const* name(std::uint32_t) const noexcept override {
    return "mutex, semaphore or auto_reset_event";
  }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void removed(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  bool try_acquire_contended(std::uint32_t n) noexcept;
  void release_contended(std::uint32_t n) noexcept;
  void unlock_contended() noexcept;
  void set_contended() noexcept;
  void serve(std::uint32_t& word, waiter_list& woken) noexcept;
};

/// Set or not.
class UNIO_API event_queue final : public wait_queue {
 public:
  constexpr explicit event_queue(bool is_set) noexcept : wait_queue(is_set ? 1 : 0) {}

  [[nodiscard]] bool is_ready() const noexcept { // pairs with the release in set() and unlock_word()
    return (word_.load(std::memory_order_acquire) & unit) != 0;
  }
  void set() noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    if ((w & (bit_locked | bit_waiters)) != 0 ||
        !word_.compare_exchange_strong(w, unit, std::memory_order_release)) [[unlikely]]
      set_contended();
  }
  void reset() noexcept {
    std::uint32_t w = unit;
    if (!word_.compare_exchange_strong(w, 0, std::memory_order_relaxed) && w != 0) [[unlikely]]
      reset_contended();
  }
  [[nodiscard]] char const* name(std::uint32_t) const noexcept override { return "event"; }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  void set_contended() noexcept;
  void reset_contended() noexcept;
};

/// What is left to count.
class UNIO_API latch_queue final : public wait_queue {
 public:
  constexpr explicit latch_queue(std::uint32_t n) noexcept : wait_queue(n) {}

  [[nodiscard]] bool is_ready() const noexcept { // pairs with the release in count_down() and unlock_word()
    return word_.load(std::memory_order_acquire) / unit == 0;
  }
  void count_down(std::uint32_t n) noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    // Only the last one wakes the waiters.
    while ((w & bit_locked) == 0 && w / unit >= n && ((w & bit_waiters) == 0 || w / unit > n))
      if (word_.compare_exchange_weak(w, w - n * unit, std::memory_order_release)) return;
    count_down_contended(n);
  }
  [[nodiscard]] char const* name(std::uint32_t) const noexcept override { return "latch"; }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  void count_down_contended(std::uint32_t n) noexcept;
};

/// How many have come, of how many.
class UNIO_API rendezvous_queue final : public wait_queue {
 public:
  using function = void (*)(void*) noexcept;
  constexpr rendezvous_queue(std::uint32_t n, function f, void* argument) noexcept
      : expected_(n), completion_(f), argument_(argument) {}

  void drop() noexcept;
  [[nodiscard]] char const* name(std::uint32_t) const noexcept override { return "rendezvous"; }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void removed(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void admitted(waiter_list& woken) noexcept override;

 private:
  std::uint32_t arrived_ = 0;
  std::uint32_t expected_;
  function completion_;
  void* argument_;
};

} // namespace unio::detail
