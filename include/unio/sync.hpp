// unio/sync.hpp: what coroutines use to wait for each other.
//
//   async_mutex        one at a time
//   semaphore          so many at a time
//   auto_reset_event   each set() resumes one coroutine
//   event              all wait until it is set
//   latch              all wait until it has been counted down, once
//   rendezvous         all wait until all have come, again and again
//
// All of them:
//
// Fairness       first come, first served; nothing overtakes a waiting coroutine, try_ functions included.
//                Every 64th wait that need not suspend lets other coroutines run (task.hpp)
// Resumes        on the executor of the coroutine's environment, by posting: never inside the call that ends
//                the wait
// Returns        each wait a result<void>, but co_lock() a result<guard>
// Errors         condition::canceled, from every wait
// Cancellation   by the environment's stop token, from any thread: the wait ends with condition::canceled.
//                After a stop it does not begin, even if it need not wait. What was granted before the stop
//                counts: a wait that ends with canceled was granted nothing
// Destruction    of a waiting coroutine removes it from the list; a grant it has not seen passes to the next.
//                On the thread of its executor
// Lifetime       each must outlive every co_await on it. The last coroutine to resume may destroy it, even
//                while the call that ended its wait has not returned yet
// Awaited by     coroutines that have an environment, as task<T> has
// Thread safety  everything but construction and destruction from any thread; everything but co_await also
//                from code that is no coroutine
// Cost           no allocation, no system call. Without waiters: one atomic compare-and-swap. Otherwise a few
//                instructions under a lock that is part of the word, and a post
// Deadlines      timeout(duration, mutex.co_lock())

#pragma once

#include <unio/detail/sync.hpp>

namespace unio::inline v0_1 {

/// Mutual exclusion between coroutines. A coroutine may be suspended while it holds it, and unlock it on
/// another thread. Not recursive.
///
/// Size    32 bytes
/// Source  cppcoro, async_mutex
class async_mutex {
 public:
  class guard;
  using lock_awaitable = detail::wait_awaitable<detail::permits, &detail::permits::try_lock, guard>;
  constexpr async_mutex() noexcept : permits_(1) {}

  /// `co_await m.co_lock()` waits until the coroutine holds the mutex.
  ///
  /// Returns        a guard, which unlocks it when it is destroyed
  /// Preconditions  this coroutine does not hold it
  /// Cost           one compare-and-swap if it is free, and another one to unlock it
  [[nodiscard]] lock_awaitable co_lock() noexcept { return lock_awaitable(permits_); }
  /// The same without waiting. The guard is empty if the mutex is held or waited for.
  [[nodiscard]] inline guard try_lock() noexcept;
  /// As co_lock(), of which it is the old name.
  [[deprecated("use co_lock"), nodiscard]] lock_awaitable lock() noexcept { return co_lock(); }
  /// Unlocks it, or hands it to the longest waiter. For a released guard. Preconditions: locked; checked.
  void unlock() noexcept { permits_.unlock(); }

 private:
  detail::permits permits_;
};

/// Holds a mutex, or nothing. Distinct guards are safe, a shared one is not. The mutex outlives it.
///
/// Moved-from  holds nothing
/// Size        8 bytes
class [[nodiscard]] async_mutex::guard {
 public:
  guard() = default;
  guard(guard&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  guard& operator=(guard&& other) noexcept {
    if (this != &other) {
      unlock();
      held_ = std::exchange(other.held_, nullptr);
    }
    return *this;
  }
  ~guard() { unlock(); }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  /// Unlocks the mutex now, if it holds one.
  void unlock() noexcept {
    if (held_ != nullptr) std::exchange(held_, nullptr)->unlock();
  }
  /// Forgets the mutex, which stays locked until its unlock() is called.
  void release() noexcept { held_ = nullptr; }

 private:
  friend class async_mutex;
  template <class Queue, auto Try, class Value, auto First> friend class detail::wait_awaitable;
  explicit guard(detail::permits& held) noexcept : held_(&held) {}
  detail::permits* held_ = nullptr;
};

inline async_mutex::guard async_mutex::try_lock() noexcept {
  return permits_.try_lock() ? guard(permits_) : guard();
}

/// A number of permits, which are acquired and released by any coroutine or thread.
///
/// Fairness  a coroutine that waits for many is not overtaken by those that want few
/// Size      32 bytes
class semaphore {
 public:
  using acquire_awaitable = detail::wait_awaitable<detail::permits, &detail::permits::try_acquire>;
  /// As many permits as there can be.
  static constexpr std::uint32_t max = detail::permits::max;

  constexpr explicit semaphore(std::uint32_t n) noexcept : permits_(n) {} ///< Preconditions: n <= max

  /// `co_await s.co_acquire(n)` waits until there are `n` permits, and takes them all at once.
  [[nodiscard]] acquire_awaitable co_acquire(std::uint32_t n = 1) noexcept {
    return acquire_awaitable(permits_, n);
  }
  /// The same without waiting. False: there are fewer, or a coroutine waits for them.
  [[nodiscard]] bool try_acquire(std::uint32_t n = 1) noexcept { return permits_.try_acquire(n); }
  /// As co_acquire(), of which it is the old name.
  [[deprecated("use co_acquire"), nodiscard]] acquire_awaitable acquire(std::uint32_t n = 1) noexcept {
    return co_acquire(n);
  }
  /// Gives `n` permits back, or adds new ones. Preconditions: at most `max` in all; checked.
  void release(std::uint32_t n = 1) noexcept { permits_.release(n); }

 private:
  detail::permits permits_;
};

/// Each set() resumes one waiting coroutine, or lets the next one pass. Sets before that count as one.
///
/// Size  32 bytes
class auto_reset_event {
 public:
  using wait_awaitable = semaphore::acquire_awaitable;
  constexpr explicit auto_reset_event(bool is_set = false) noexcept : permits_(is_set ? 1 : 0, 1) {}

  /// Happens before what follows the wait that it ends.
  void set() noexcept { permits_.set(); }
  void reset() noexcept { permits_.reset(); }
  /// `co_await e.co_wait()` waits until it is set, and resets it.
  [[nodiscard]] wait_awaitable co_wait() noexcept { return wait_awaitable(permits_); }
  /// The same without waiting. False: it was not set.
  [[nodiscard]] bool try_wait() noexcept { return permits_.try_acquire(1); }
  /// As co_wait(), of which it is the old name.
  [[deprecated("use co_wait"), nodiscard]] wait_awaitable wait() noexcept { return co_wait(); }

 private:
  detail::permits permits_;
};

/// Is set or not. While it is set, no coroutine waits; it stays set until it is reset.
///
/// Size  32 bytes
class event {
 public:
  using wait_awaitable = detail::wait_awaitable<detail::event_queue, &detail::event_queue::is_ready>;
  constexpr explicit event(bool is_set = false) noexcept : queue_(is_set) {}

  /// Happens before what follows the waits that it ends.
  void set() noexcept { queue_.set(); }
  /// A wait that set() has already ended stays ended.
  void reset() noexcept { queue_.reset(); }
  [[nodiscard]] bool is_set() const noexcept { return queue_.is_ready(); }
  /// `co_await e.co_wait()` waits until it is set; it may have been reset since. If it is set, a load.
  [[nodiscard]] wait_awaitable co_wait() noexcept { return wait_awaitable(queue_); }
  /// As co_wait(), of which it is the old name.
  [[deprecated("use co_wait"), nodiscard]] wait_awaitable wait() noexcept { return co_wait(); }

 private:
  detail::event_queue queue_;
};

/// A number that is counted down. Coroutines wait until it is zero; it then stays zero.
///
/// Size  32 bytes
class latch {
 public:
  using wait_awaitable = detail::wait_awaitable<detail::latch_queue, &detail::latch_queue::is_ready>;
  using arrive_awaitable = detail::wait_awaitable<detail::latch_queue, &detail::latch_queue::is_ready, void,
                                                  &detail::latch_queue::count_down>;
  static constexpr std::uint32_t max = detail::permits::max;

  constexpr explicit latch(std::uint32_t n) noexcept : queue_(n) {} ///< Preconditions: n <= max

  /// Happens before what follows the waits. Preconditions: at least `n` is left; checked.
  void count_down(std::uint32_t n = 1) noexcept { queue_.count_down(n); }
  /// Whether it is zero.
  [[nodiscard]] bool try_wait() const noexcept { return queue_.is_ready(); }
  /// `co_await l.co_wait()` waits until it is zero.
  [[nodiscard]] wait_awaitable co_wait() noexcept { return wait_awaitable(queue_); }
  /// As co_wait(), of which it is the old name.
  [[deprecated("use co_wait"), nodiscard]] wait_awaitable wait() noexcept { return co_wait(); }
  /// As count_down(), then co_wait(). Errors: condition::canceled; it has been counted down nevertheless.
  [[nodiscard]] arrive_awaitable co_arrive_and_wait(std::uint32_t n = 1) noexcept {
    return arrive_awaitable(queue_, n);
  }
  /// As co_arrive_and_wait(), of which it is the old name.
  [[deprecated("use co_arrive_and_wait"), nodiscard]] arrive_awaitable arrive_and_wait(
      std::uint32_t n = 1) noexcept {
    return co_arrive_and_wait(n);
  }

 private:
  detail::latch_queue queue_;
};

/// What a rendezvous does by default when all have come: nothing.
struct no_completion {
  void operator()() const noexcept {}
};

/// Waits for a number of coroutines, which then resume together; and again. Elsewhere called a cyclic
/// barrier; `barrier` is what makes a file durable (handle.hpp).
///
/// Completion  called by the last coroutine to come, before any resumes. It must not throw, nor wait for them
template <class Completion = no_completion> class rendezvous {
 public:
  using arrive_awaitable = detail::wait_awaitable<detail::rendezvous_queue, nullptr>;

  /// For `n` coroutines. Preconditions: n >= 1.
  constexpr explicit rendezvous(std::uint32_t n, Completion completion = {}) noexcept
      : completion_(std::move(completion)), queue_(n, &complete, &completion_) {}

  /// `co_await r.co_arrive_and_wait()` waits until all have come. The last one need not wait.
  ///
  /// Returns        nothing. What each did before happens before what any does after
  /// Errors         condition::canceled. Then it has not come: the others wait for another one in its place
  /// Preconditions  no more than that number take part
  [[nodiscard]] arrive_awaitable co_arrive_and_wait() noexcept { return arrive_awaitable(queue_); }
  /// As co_arrive_and_wait(), of which it is the old name.
  [[deprecated("use co_arrive_and_wait"), nodiscard]] arrive_awaitable arrive_and_wait() noexcept {
    return co_arrive_and_wait();
  }
  /// One fewer takes part, from now on. Preconditions: at least one takes part; checked.
  void arrive_and_drop() noexcept { queue_.drop(); }

 private:
  static void complete(void* completion) noexcept { (*static_cast<Completion*>(completion))(); }

  [[no_unique_address]] Completion completion_;
  detail::rendezvous_queue queue_;
};

} // namespace unio
