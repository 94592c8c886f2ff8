// unio/detail/waiting.hpp: what the primitives by which coroutines wait for each other have in common.
//
// Here because a waiter lives in the frame of the waiting coroutine, and because a call that need not wait
// should cost a few instructions. The rest is in src/coro/sync.cpp, once for all of sync.hpp and channel.hpp.
//
//   waiter         a waiting coroutine, in its frame
//   waiter_list    first come, first served
//   wait_queue     a word, which is also a lock, and its waiters
//   wait_awaiter   the part of an awaitable that waits
//   wait_awaitable the awaitable of sync.hpp

#pragma once

#include <unio/detail/tracking.hpp>
#include <unio/detail/yield.hpp>
#include <unio/executor.hpp>
#include <unio/result.hpp>

#include <atomic>
#include <coroutine>
#include <type_traits>

namespace unio::inline v0_1::detail {

class wait_queue;
class waiter_list;

/// How waiting has ended.
enum class wait_outcome : std::uint16_t {
  none,     ///< it has not begun
  waiting,  ///< it continues
  granted,  ///< the condition holds, or the permit or value was handed over
  refused,  ///< it will never happen
  canceled, ///< a stop came first
};

/// canceled: ECANCELED; refused: EPIPE; none: EAGAIN.
[[nodiscard]] UNIO_API std::error_code error_of(wait_outcome o) noexcept;

/// A coroutine that waits. Protected by the lock of `queue`, except what the stop token needs.
struct waiter : stop_node, tracked_wait<UNIO_TRACKS_PENDING> {
  waiter(wait_queue& q, std::coroutine_handle<> h, environment const& e, void* p, std::uint32_t n) noexcept
      : stop_node(&stopped), resume(h, &e), with(&e), queue(&q), place(p), amount(n) {}
  UNIO_API static void stopped(stop_node& n) noexcept;

  resumption resume;
  environment const* with;
  wait_queue* queue;
  void* place;          // of the value
  std::uint32_t amount; // how much of it
  wait_outcome outcome = wait_outcome::none;
  bool yields = false; // it resumes in a later turn, even if it need not wait
  waiter* next = nullptr;
  waiter* previous = nullptr;
  std::atomic<waiter_list*> in{nullptr}; // relaxed: a thread looks for its own lists
};

/// Waiters in the order in which they came. All operations are O(1).
class waiter_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] waiter* first() const noexcept { return first_; }
  void push(waiter& w) noexcept {
    w.in.store(this, std::memory_order_relaxed);
    w.next = nullptr;
    w.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &w;
    last_ = &w;
  }
  void remove(waiter& w) noexcept {
    (w.previous != nullptr ? w.previous->next : first_) = w.next;
    (w.next != nullptr ? w.next->previous : last_) = w.previous;
    w.in.store(nullptr, std::memory_order_relaxed);
  }
  /// Ends the wait of the first one and moves it to `to`.
  void end_first(wait_outcome how, waiter_list& to) noexcept {
    waiter& w = *first_;
    remove(w);
    w.outcome = how;
    to.push(w);
  }
  void end_all(wait_outcome how, waiter_list& to) noexcept {
    while (!empty()) end_first(how, to);
  }
  /// Posts all of them, each to its executor. They may be destroyed before it returns.
  void post_all() noexcept {
    if (!empty()) post_each();
  }

 private:
  UNIO_API void post_each() noexcept;

  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
};

/// A word and its waiters.
///
/// The word is a lock (bit_locked), says whether coroutines wait (bit_waiters), and holds a value (from
/// `unit` upwards). While neither bit is set, any thread may change the value by one compare-and-swap; the
/// thread that holds the lock owns the word and the waiters, and publishes both by the store that unlocks.
/// Nothing is touched after waiters may resume, because they may destroy the queue.
class UNIO_API wait_queue {
 public:
  static constexpr std::uint32_t bit_locked = 1, bit_waiters = 2, unit = 4;

  constexpr explicit wait_queue(std::uint32_t value = 0, std::uint32_t most = 0) noexcept
      : word_(value * unit), most_(most) {}
  wait_queue(wait_queue const&) = delete;
  wait_queue& operator=(wait_queue const&) = delete;

  /// Returns the word, without bit_locked. Held for a few instructions.
  std::uint32_t lock_word() noexcept {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    if ((w & bit_locked) == 0 &&
        word_.compare_exchange_weak(w, w | bit_locked, std::memory_order_acquire)) // pairs with unlock_word()
      return w;
    return lock_word_contended();
  }
  /// Publishes the value in `w`. This object may be destroyed from here on.
  void unlock_word(std::uint32_t w) noexcept {
    word_.store((w & ~bit_waiters) | (waiters_.empty() ? 0 : bit_waiters), std::memory_order_release);
  }

  /// Calls `f(word, woken)` under the lock, then posts those in `woken`.
  template <class F> void locked(F f) noexcept {
    waiter_list woken;
    std::uint32_t word = lock_word();
    f(word, woken);
    unlock_word(word);
    woken.post_all();
  }

  // These three are called locked. `word` is the value to unlock with; waiters added to `woken` are posted
  // after that.

  /// A waiter comes. True: its wait has ended (outcome). False: it is in a list.
  virtual bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept = 0;
  /// A waiter was taken out of its list without a grant.
  virtual void removed(waiter&, std::uint32_t&, waiter_list&) noexcept {}
  /// The wait of `w` was granted, but its coroutine is destroyed: passes the grant on.
  virtual void give_back(waiter&, std::uint32_t&, waiter_list&) noexcept {}

  /// What a waiter of that amount waits for, for dump_pending().
  [[nodiscard]] virtual char const* name(std::uint32_t amount) const noexcept = 0;

  /// A waiter was admitted at once and is about to continue: posts those that it has woken. Not locked.
  virtual void admitted(waiter_list& woken) noexcept { woken.post_all(); }

 protected:
  ~wait_queue() { UNIO_EXPECTS(waiters_.empty(), "something was destroyed that a coroutine waits for"); }

  std::atomic<std::uint32_t> word_;
  std::uint32_t const most_; // of permits: where it takes no room
  waiter_list waiters_;

 private:
  std::uint32_t lock_word_contended() noexcept;
};

/// The part of an awaitable that waits. Movable until it is awaited; the lifetime of `waiter_` begins in
/// suspend().
class wait_awaiter {
 public:
  explicit wait_awaiter(wait_queue& q, std::uint32_t amount) noexcept : queue_(&q), amount_(amount) {}
  wait_awaiter(wait_awaiter&& other) noexcept : queue_(other.queue_), amount_(other.amount_) {
    UNIO_EXPECTS(!other.suspended_, "what a coroutine waits in was moved");
  }
  wait_awaiter& operator=(wait_awaiter&&) = delete;
  ~wait_awaiter() {
    if (suspended_) [[unlikely]]
      leave();
  }

 protected:
  /// Whether it need not wait, because a stop was requested.
  bool stop_requested(environment const& e) noexcept {
    if (!e.stop.stop_requested()) [[likely]]
      return false;
    outcome_ = wait_outcome::canceled;
    return true;
  }
  /// Whether it yields although it need not wait: then it is suspended.
  bool yields() noexcept { return yields_ = turn_is_over(); }
  /// False: its wait has ended already. True: it may have ended, and the coroutine be destroyed.
  UNIO_API bool suspend(std::coroutine_handle<> h, environment const& e, void* place = nullptr) noexcept;
  /// The outcome. The coroutine has resumed.
  wait_outcome resumed() noexcept {
    if (suspended_) return resumed_elsewhere();
    return outcome_;
  }

  wait_queue* queue_;
  std::uint32_t amount_; // this and the next three are set by one store
  wait_outcome outcome_ = wait_outcome::none;

 private:
  UNIO_API void leave() noexcept;
  UNIO_API wait_outcome resumed_elsewhere() noexcept;

  bool suspended_ = false;
  bool yields_ = false;
  union {
    waiter waiter_; // from suspend() on; its destructor has nothing to do
  };
};

/// Waits for a `Queue` of sync.hpp. `First`, a member of it, is called before anything else, even after a
/// stop. `Try`, a member of it, tries without waiting; without one, the queue decides under its lock. Yields
/// a `Value` made of the queue, or nothing.
template <class Queue, auto Try, class Value = void, auto First = nullptr>
class UNIO_TO_AWAIT wait_awaitable : private wait_awaiter {
 public:
  explicit wait_awaitable(Queue& q, std::uint32_t n = 1) noexcept : wait_awaiter(q, n) {}

  bool await_ready(environment const& e) noexcept {
    if constexpr (!std::is_null_pointer_v<decltype(First)>) (queue().*First)(amount_);
    if (stop_requested(e)) return true;
    if (yields()) return false;
    if constexpr (!std::is_null_pointer_v<decltype(Try)>) {
      if (!try_now()) return false;
      outcome_ = wait_outcome::granted;
      return true;
    }
    return false;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept { return suspend(h, e); }
  [[nodiscard]] result<Value> await_resume() noexcept {
    wait_outcome const o = resumed();
    if (o != wait_outcome::granted) [[unlikely]]
      return error_of(o);
    if constexpr (std::is_void_v<Value>) {
      return {};
    } else {
      return Value(queue());
    }
  }

 private:
  [[nodiscard]] Queue& queue() const noexcept { return *static_cast<Queue*>(queue_); }
  [[nodiscard]] bool try_now() noexcept {
    if constexpr (requires { (queue().*Try)(amount_); }) {
      return (queue().*Try)(amount_);
    } else {
      return (queue().*Try)();
    }
  }
};

} // namespace unio::detail
