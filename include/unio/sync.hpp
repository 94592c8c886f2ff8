// unio/sync.hpp: what coroutines use to wait for each other.
//
//   async_mutex        one at a time
//   semaphore          so many at a time
//   event              until it is set, all; auto_reset_event: one for each time it is set
//   latch              until it has been counted down, once
//   barrier            until all have come, again and again
//
// All of them work between coroutines of any threads and executors, allocate nothing, and do not suspend a coroutine that need
// not wait, but for every 64th time, when others have a turn (yield.hpp). What is said here holds for each:
//
// Fairness       first come, first served; nobody overtakes those who wait, try_ functions neither
// Resumes        on the executor of the coroutine's environment, by posting: never inside the call that lets it go on
// Cancellation   by the environment's stop token, from any thread: the waiting ends with condition::canceled. After a stop it
//                does not begin, even if it need not wait. What was handed over first beats the stop: a waiter that is told
//                of the stop has nothing, and one that has been given something is told so
// Destruction    of a coroutine that waits forgets it; what it had been given and never saw goes to the next. On the
//                thread of its executor
// Lifetime       outlives the waiting: each co_await, until it has returned. The last one to go on may destroy it, also while
//                the call that let it go on has not returned yet
// Awaited by     coroutines that have an environment, as task<T> has
// Thread safety  all of it from any thread, but for construction and destruction; also by who is no coroutine, but for co_await
// Cost           no allocation, no system call. Without waiters: one atomic compare-and-swap. Otherwise a few instructions
//                under a lock that is part of the word, and a post
// Deadlines      timeout(duration, mutex.lock())

#pragma once

#include <unio/detail/waiting.hpp>

#include <utility>

namespace unio {

namespace detail {

/// Permits, and who waits for some of them.
class UNIO_API permits final : public wait_queue {
 public:
  static constexpr std::uint32_t max = (std::uint32_t(1) << 30) - 1;
  constexpr explicit permits(std::uint32_t n) noexcept : wait_queue(n) {}

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

  // Where there is but one. No look before the leap: there is a permit, or it is ours.
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

/// Waits for permits.
class [[nodiscard]] acquire_awaitable : private wait_awaiter {
 public:
  acquire_awaitable(permits& p, std::uint32_t n) noexcept : wait_awaiter(p), n_(n) {}

  bool await_ready(environment const& e) noexcept {
    if (stop_requested(e)) return true;
    if (yields() || !static_cast<permits*>(queue_)->try_acquire(n_)) return false;
    outcome_ = wait_outcome::granted;
    return true;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return suspend(h, e, nullptr, n_);
  }
  [[nodiscard]] result<void> await_resume() noexcept { return resumed_with_result(); }

 private:
  std::uint32_t n_;
};

class lock_awaitable;

} // namespace detail

/// Mutual exclusion between coroutines. A coroutine may hold it while it is suspended, and let go of it on another thread.
/// Not recursive.
///
/// Size    32 bytes
/// Source  cppcoro, async_mutex
class async_mutex {
 public:
  class guard;
  constexpr async_mutex() noexcept : permits_(1) {}

  /// `co_await m.lock()` waits until it is ours.
  ///
  /// Returns        a guard, which lets go of it when it is destroyed
  /// Errors         condition::canceled: then it is not ours
  /// Preconditions  this coroutine does not hold it
  /// Cost           one compare-and-swap if nobody holds it, and another one to let go
  [[nodiscard]] inline detail::lock_awaitable lock() noexcept;
  /// The same without waiting. The guard holds nothing if somebody else has the mutex or waits for it.
  [[nodiscard]] inline guard try_lock() noexcept;
  /// Lets go of it, or hands it to the one who has waited longest. For those whose guard was told to release() it.
  ///
  /// Preconditions  it is held; ends the program if nobody holds it
  void unlock() noexcept { permits_.unlock(); }

 private:
  friend class detail::lock_awaitable;
  detail::permits permits_;
};

/// Holds a mutex, or nothing.
///
/// Thread safety  distinct: safe; shared: no
/// Moved-from     holds nothing
/// Lifetime       the mutex outlives it
/// Size           8 bytes
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
  /// Lets go of it now, if it holds it.
  void unlock() noexcept {
    if (held_ != nullptr) std::exchange(held_, nullptr)->unlock();
  }
  /// Forgets the mutex, which stays locked until somebody calls its unlock().
  void release() noexcept { held_ = nullptr; }

 private:
  friend class async_mutex;
  friend class detail::lock_awaitable;
  explicit guard(detail::permits& held) noexcept : held_(&held) {}
  detail::permits* held_ = nullptr;
};

namespace detail {

class [[nodiscard]] lock_awaitable : private wait_awaiter {
 public:
  explicit lock_awaitable(async_mutex& m) noexcept : wait_awaiter(m.permits_) {}

  bool await_ready(environment const& e) noexcept {
    if (stop_requested(e)) return true;
    if (yields() || !mutex().try_lock()) return false;
    outcome_ = wait_outcome::granted;
    return true;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return suspend(h, e, nullptr, 1);
  }
  [[nodiscard]] result<async_mutex::guard> await_resume() noexcept {
    wait_outcome const o = resumed();
    if (o == wait_outcome::granted) [[likely]]
      return async_mutex::guard(mutex());
    return error_of(o);
  }

 private:
  [[nodiscard]] permits& mutex() const noexcept { return *static_cast<permits*>(queue_); }
};

} // namespace detail

inline detail::lock_awaitable async_mutex::lock() noexcept { return detail::lock_awaitable(*this); }
inline async_mutex::guard async_mutex::try_lock() noexcept {
  return permits_.try_lock() ? guard(permits_) : guard();
}

/// A number of permits, which are taken and given back, by anybody.
///
/// Fairness  who wants many and waits is not overtaken by those who want few
/// Size      32 bytes
class semaphore {
 public:
  /// As many permits as there can be.
  static constexpr std::uint32_t max = detail::permits::max;

  /// Preconditions: n <= max
  constexpr explicit semaphore(std::uint32_t n) noexcept : permits_(n) {}

  /// `co_await s.acquire(n)` waits until there are `n` permits, and takes them all at once.
  ///
  /// Returns  nothing
  /// Errors   condition::canceled: then none was taken
  [[nodiscard]] detail::acquire_awaitable acquire(std::uint32_t n = 1) noexcept { return {permits_, n}; }
  /// The same without waiting. False: there are fewer, or somebody waits for them.
  [[nodiscard]] bool try_acquire(std::uint32_t n = 1) noexcept { return permits_.try_acquire(n); }
  /// Gives `n` permits back, or so many new ones.
  ///
  /// Preconditions  there are no more than `max` then; checked
  void release(std::uint32_t n = 1) noexcept { permits_.release(n); }

 private:
  detail::permits permits_;
};

/// Lets one go on for each time that it is set: one who waits, or else the next one to come. Set twice before anybody comes,
/// it counts as once.
///
/// Size  32 bytes
class auto_reset_event {
 public:
  constexpr explicit auto_reset_event(bool is_set = false) noexcept : permits_(is_set ? 1 : 0) {}

  /// What was done before it happens before what is done after the wait that it ends.
  void set() noexcept { permits_.set(); }
  void reset() noexcept { permits_.reset(); }
  /// `co_await e.wait()` waits until it is set, and resets it.
  ///
  /// Returns  nothing
  /// Errors   condition::canceled: then it was not reset
  [[nodiscard]] detail::acquire_awaitable wait() noexcept { return {permits_, 1}; }
  /// The same without waiting. False: it was not set.
  [[nodiscard]] bool try_wait() noexcept { return permits_.try_acquire(1); }

 private:
  detail::permits permits_;
};

namespace detail {

/// Waits for what stays true once it is, and so asks twice: `Queue::is_ready()` outside of the lock.
template <class Queue> class [[nodiscard]] wait_awaitable : private wait_awaiter {
 public:
  explicit wait_awaitable(Queue& q) noexcept : wait_awaiter(q) {}

  bool await_ready(environment const& e) noexcept {
    if (stop_requested(e)) return true;
    if (yields() || !static_cast<Queue*>(queue_)->is_ready()) return false;
    outcome_ = wait_outcome::granted;
    return true;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept { return suspend(h, e); }
  [[nodiscard]] result<void> await_resume() noexcept { return resumed_with_result(); }
};

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
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void removed(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  void set_contended() noexcept;
  void reset_contended() noexcept;
};

class UNIO_API latch_queue final : public wait_queue {
 public:
  constexpr explicit latch_queue(std::uint32_t n) noexcept : wait_queue(n) {}

  [[nodiscard]] bool is_ready() const noexcept { // pairs with the release in count_down() and unlock_word()
    return word_.load(std::memory_order_acquire) / unit == 0;
  }
  void count_down(std::uint32_t n) noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    // The last one has to look after those who wait. Until then they need not be looked at.
    while ((w & bit_locked) == 0 && w / unit >= n && ((w & bit_waiters) == 0 || w / unit > n))
      if (word_.compare_exchange_weak(w, w - n * unit, std::memory_order_release)) return;
    count_down_contended(n);
  }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void removed(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  void count_down_contended(std::uint32_t n) noexcept;
};

/// Arrives at a latch, which counts whatever becomes of the wait.
class [[nodiscard]] latch_arrival : private wait_awaitable<latch_queue> {
 public:
  latch_arrival(latch_queue& q, std::uint32_t n) noexcept : wait_awaitable(q), latch_(q), n_(n) {}

  bool await_ready(environment const& e) noexcept {
    latch_.count_down(n_);
    return wait_awaitable::await_ready(e);
  }
  using wait_awaitable::await_resume;
  using wait_awaitable::await_suspend;

 private:
  latch_queue& latch_;
  std::uint32_t n_;
};

} // namespace detail

/// Is set or not. Who waits goes on once it is set, all of them; it stays set until it is reset.
///
/// Size  32 bytes
class event {
 public:
  constexpr explicit event(bool is_set = false) noexcept : queue_(is_set) {}

  /// What was done before it happens before what is done after the waits that it ends.
  void set() noexcept { queue_.set(); }
  /// Those who were let go on do so.
  void reset() noexcept { queue_.reset(); }
  [[nodiscard]] bool is_set() const noexcept { return queue_.is_ready(); }
  /// `co_await e.wait()` waits until it is set.
  ///
  /// Returns  nothing. It may have been reset since
  /// Errors   condition::canceled
  /// Cost     if it is set: a load
  [[nodiscard]] detail::wait_awaitable<detail::event_queue> wait() noexcept {
    return detail::wait_awaitable<detail::event_queue>(queue_);
  }

 private:
  detail::event_queue queue_;
};

/// A number that is counted down. Who waits goes on once it is zero, which it stays.
///
/// Size  32 bytes
class latch {
 public:
  static constexpr std::uint32_t max = detail::permits::max;

  /// Preconditions: n <= max
  constexpr explicit latch(std::uint32_t n) noexcept : queue_(n) {}

  /// What was done before it happens before what is done after the waits.
  ///
  /// Preconditions  n <= what is left; checked
  void count_down(std::uint32_t n = 1) noexcept { queue_.count_down(n); }
  /// Whether it is zero.
  [[nodiscard]] bool try_wait() const noexcept { return queue_.is_ready(); }
  /// `co_await l.wait()` waits until it is zero.
  ///
  /// Returns  nothing
  /// Errors   condition::canceled
  [[nodiscard]] detail::wait_awaitable<detail::latch_queue> wait() noexcept {
    return detail::wait_awaitable<detail::latch_queue>(queue_);
  }
  /// Counts down and waits.
  ///
  /// Errors         condition::canceled. It has been counted down nevertheless, for others rely on that
  /// Preconditions  as count_down()
  [[nodiscard]] detail::latch_arrival arrive_and_wait(std::uint32_t n = 1) noexcept { return {queue_, n}; }

 private:
  detail::latch_queue queue_;
};

namespace detail {

class UNIO_API barrier_queue final : public wait_queue {
 public:
  using function = void (*)(void*) noexcept;
  constexpr barrier_queue(std::uint32_t n, function f, void* argument) noexcept
      : expected_(n), completion_(f), argument_(argument) {}

  void complete(waiter_list& woken) noexcept {
    completion_(argument_);
    woken.post_all(); // and this may be gone
  }
  void drop() noexcept;
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void removed(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  std::uint32_t arrived_ = 0;
  std::uint32_t expected_;
  function completion_;
  void* argument_;
};

class [[nodiscard]] barrier_arrival : private wait_awaiter {
 public:
  explicit barrier_arrival(barrier_queue& q) noexcept : wait_awaiter(q) {}

  bool await_ready(environment const& e) noexcept { return stop_requested(e); }
  UNIO_API bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept;
  [[nodiscard]] result<void> await_resume() noexcept { return resumed_with_result(); }
};

} // namespace detail

/// What a barrier does by default when all have come: nothing.
struct no_completion {
  void operator()() const noexcept {}
};

/// Waits for a number of coroutines, which then go on together; and again.
///
/// Completion  a function that the last one to come calls before anybody goes on. It must not throw, nor wait for those who
///             wait here
template <class Completion = no_completion> class barrier {
 public:
  /// Preconditions: n >= 1
  constexpr explicit barrier(std::uint32_t n, Completion completion = {}) noexcept
      : completion_(std::move(completion)), queue_(n, &complete, &completion_) {}

  /// `co_await b.arrive_and_wait()` waits until so many have come. The last one need not wait.
  ///
  /// Returns        nothing. What each has done before happens before what any does after
  /// Errors         condition::canceled. Then it has not come: the others wait for another one in its place
  /// Preconditions  no more than so many take part
  [[nodiscard]] detail::barrier_arrival arrive_and_wait() noexcept { return detail::barrier_arrival(queue_); }
  /// One fewer takes part, from now on.
  ///
  /// Preconditions  somebody takes part; checked
  void arrive_and_drop() noexcept { queue_.drop(); }

 private:
  static void complete(void* completion) noexcept { (*static_cast<Completion*>(completion))(); }

  [[no_unique_address]] Completion completion_;
  detail::barrier_queue queue_;
};

} // namespace unio
