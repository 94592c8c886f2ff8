// unio/detail/waiting.hpp: what coroutines that wait for each other have in common.
//
// Here because a waiter lives in the frame of the coroutine that waits, and because what need not wait should
// cost a few instructions where it is called. The rest is in src/coro/sync.cpp, once for all of sync.hpp and
// channel.hpp.
//
//   waiter         one who waits: in its frame
//   waiter_list    first come, first served
//   wait_queue     a word, which is also a lock, and who waits for it
//   wait_awaiter   the part of an awaitable that waits
//   wait_awaitable what all of sync.hpp is awaited by

#pragma once

#include <unio/executor.hpp>
#include <unio/result.hpp>
#include <unio/stop_token.hpp>
#include <unio/yield.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <type_traits>

namespace unio::detail {

class wait_queue;
class waiter_list;

/// How waiting has ended.
enum class wait_outcome : std::uint16_t {
  none,     ///< it has not begun
  waiting,  ///< it goes on
  granted,  ///< what was waited for has happened, or has been handed over
  refused,  ///< it will never happen
  canceled, ///< a stop came first
};

/// canceled: ECANCELED; refused: EPIPE; none: EAGAIN.
[[nodiscard]] UNIO_API std::error_code error_of(wait_outcome o) noexcept;

/// A coroutine that waits. Everything but what the stop token needs belongs to whoever has locked `queue`.
struct waiter : stop_node {
  waiter(wait_queue& q, std::coroutine_handle<> h, environment const& e, void* p, std::uint32_t n) noexcept
      : stop_node(&stopped), resume(h, &e), with(&e), queue(&q), place(p), amount(n) {}
  UNIO_API static void stopped(stop_node& n) noexcept;

  resumption resume;
  environment const* with;
  wait_queue* queue;
  void* place;          // where a value is, or goes to
  std::uint32_t amount; // how much of it
  wait_outcome outcome = wait_outcome::none;
  bool yields = false; // it goes on in another turn, even if it need not wait
  waiter* next = nullptr;
  waiter* previous = nullptr;
  waiter_list* in = nullptr;
};

/// Waiters in the order in which they came. Every operation is O(1).
class waiter_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] waiter* first() const noexcept { return first_; }
  void push(waiter& w) noexcept {
    w.in = this;
    w.next = nullptr;
    w.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &w;
    last_ = &w;
  }
  void remove(waiter& w) noexcept {
    (w.previous != nullptr ? w.previous->next : first_) = w.next;
    (w.next != nullptr ? w.next->previous : last_) = w.previous;
    w.in = nullptr;
  }
  /// Ends the waiting of the first one, which is then in `to`.
  void end_first(wait_outcome how, waiter_list& to) noexcept {
    waiter& w = *first_;
    remove(w);
    w.outcome = how;
    to.push(w);
  }
  void end_all(wait_outcome how, waiter_list& to) noexcept {
    while (!empty()) end_first(how, to);
  }
  /// Has all of them resumed, each on its executor. They may be gone before it returns.
  void post_all() noexcept {
    if (!empty()) post_each();
  }

 private:
  UNIO_API void post_each() noexcept;

  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
};

/// A word and who waits for it.
///
/// The word is a lock (bit_locked), says whether somebody waits (bit_waiters), and holds a value (from `unit`
/// upwards). Whoever finds neither bit set may change the value by one compare-and-swap; whoever has locked
/// it owns all of it, the waiters too, and publishes what it has become by the store that unlocks. So nothing
/// is touched after what lets others go on, and they may destroy it.
class UNIO_API wait_queue {
 public:
  static constexpr std::uint32_t bit_locked = 1, bit_waiters = 2, unit = 4;

  constexpr explicit wait_queue(std::uint32_t value = 0) noexcept : word_(value * unit) {}
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
  /// Publishes the value in `w`. From here on this may be gone.
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

  // These three are called locked. `word` is what it will be unlocked with; what they add to `woken` is
  // posted after that.

  /// A waiter comes. True: its waiting has ended (outcome). False: it is in a list.
  virtual bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept = 0;
  /// A waiter was taken out of its list, and does not get what it waited for.
  virtual void removed(waiter&, std::uint32_t&, waiter_list&) noexcept {}
  /// The waiting of `w` was granted, but its coroutine is destroyed: others get what it was given.
  virtual void give_back(waiter&, std::uint32_t&, waiter_list&) noexcept {}

  /// A waiter was admitted at once and is about to go on: posts those that it has woken. Not locked.
  virtual void admitted(waiter_list& woken) noexcept { woken.post_all(); }

 protected:
  ~wait_queue() { UNIO_EXPECTS(waiters_.empty(), "something was destroyed that a coroutine waits for"); }

  std::atomic<std::uint32_t> word_;
  waiter_list waiters_;

 private:
  std::uint32_t lock_word_contended() noexcept;
};

/// The part of an awaitable that waits. Movable until it is awaited; `waiter_` begins to live in suspend().
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
  /// Whether it gives others a turn before it goes on, even if it need not wait: then it is suspended.
  bool yields() noexcept { return yields_ = turn_is_over(); }
  /// False: its waiting has ended already. True: it may have, and the coroutine may be gone.
  UNIO_API bool suspend(std::coroutine_handle<> h, environment const& e, void* place = nullptr) noexcept;
  /// How it has ended. The coroutine goes on.
  wait_outcome resumed() noexcept {
    if (suspended_) return resumed_elsewhere();
    return outcome_;
  }

  wait_queue* queue_;
  std::uint32_t amount_; // how much of what it waits for. This and the next three are set by one store
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
/// stop. `Try`, a member of it, takes what is waited for if that needs no waiting; without one, the queue
/// decides under its lock. Yields a `Value` made of the queue, or nothing.
template <class Queue, auto Try, class Value = void, auto First = nullptr>
class [[nodiscard]] wait_awaitable : private wait_awaiter {
 public:
  explicit wait_awaitable(Queue& q, std::uint32_t n = 1) noexcept : wait_awaiter(q, n) {}

  bool await_ready(environment const& e) noexcept {
    if constexpr (!std::is_null_pointer_v<decltype(First)>) (queue().*First)(amount_);
    if (stop_requested(e)) return true;
    if constexpr (!std::is_null_pointer_v<decltype(Try)>) {
      if (yields() || !try_now()) return false;
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
