// src/driver/mailbox.hpp: what other threads bring to an engine, and how its thread sleeps and is woken.
//
//   another thread                                    the engine's thread
//   push, or woken = true (seq_cst)                   asleep = true (seq_cst)
//   asleep (seq_cst)? asleep = false, ring the bell   look at everything that is brought (seq_cst)
//                                                     nothing? sleep until the bell is rung
//
// No wake-up is lost. The seq_cst operations have one order. If the push comes before the look, the engine's
// thread stays awake. Otherwise `asleep` was set before the other thread reads it, and that thread rings, or
// leaves it to one that has taken `asleep` back and is about to ring.
//
// What a thread brings may be what the engine's end waits for. So the thread counts itself before it pushes
// and discounts itself last of all; the engine does not end while one is counted. Others keep the engine
// alive by other means while they call poke() or wake().
//
// tests/memory_model/mailbox_test.cpp tries every execution of two threads that the memory model of C++
// allows, and those of three with few preemptions.

#pragma once

#include "driver/queues.hpp"

#include <atomic>

namespace unio::inline v0_1::driver {

/// An eventfd, or -1: the thread never really sleeps.
class doorbell {
 public:
  explicit doorbell(int fd) noexcept : fd_(fd) {}
  doorbell(doorbell const&) = delete;
  doorbell& operator=(doorbell const&) = delete;
  ~doorbell() { replace(-1); }
  void ring() noexcept;
  /// No other thread may ring it during this.
  void replace(int fd) noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

/// What an engine is brought.
struct engine_mail {
  template <class T> using atomic = std::atomic<T>;
  using bell_type = doorbell;
  using posts = inbox<work, work_link>;
  using messages = inbox<io_operation, message_link>; ///< requests for atomic forms
  using returns = inbox<io_operation, queue_link>;    ///< what workers have performed
};

template <class Mail = engine_mail> class mailbox {
  template <class T> using atomic = typename Mail::template atomic<T>;

 public:
  template <class... Arguments> explicit mailbox(Arguments&&... arguments) noexcept : bell(arguments...) {}

  // From any thread.

  template <class Work> void post(Work& w) noexcept { bring(posted_, w); }
  template <class Message> void send(Message& m) noexcept { bring(messages_, m); }
  /// The same, where what waits keeps the engine alive; poke() follows.
  template <class Message> void leave(Message& m) noexcept { messages_.push(m); }
  /// By a worker, of what was lent to it.
  template <class Lent> void give_back(Lent& l) noexcept {
    returned_.push(l);
    poke();
    lent_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in is_used()
  }
  /// Ends the sleep. Returns whether there was one. A thread that is awake is only looked at: its cache line
  /// stays where it is.
  bool poke() noexcept {
    bool const slept =
        asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false, std::memory_order_seq_cst);
    if (slept) bell.ring();
    return slept;
  }
  /// Also from a handler of signals.
  void wake() noexcept {
    keep_wake();
    poke();
  }
  /// On its way to sleep, or asleep, and not yet woken.
  [[nodiscard]] bool is_asleep() const noexcept { return asleep_.load(std::memory_order_seq_cst); }

  // On the engine's own thread.

  /// True: there is something, and it must not sleep. rise() follows in any case.
  [[nodiscard]] bool lie_down() noexcept {
    asleep_.exchange(true, std::memory_order_seq_cst);
    return has_mail();
  }
  void rise() noexcept { asleep_.store(false, std::memory_order_relaxed); }

  [[nodiscard]] bool has_mail() const noexcept {
    return (any_posts() | any_requests()) != 0 || woken_.load(std::memory_order_seq_cst);
  }
  // As any_of() what was posted, and of requests and what workers have performed.
  [[nodiscard]] std::uintptr_t any_posts() const noexcept { return posted_.any(); }
  [[nodiscard]] std::uintptr_t any_requests() const noexcept { return messages_.any() | returned_.any(); }
  [[nodiscard]] bool has_messages() const noexcept { return !messages_.empty(); }
  [[nodiscard]] auto* take_posts() noexcept { return posted_.take(); }
  [[nodiscard]] auto* take_messages() noexcept { return messages_.take(); }
  [[nodiscard]] auto* take_returns() noexcept { return returned_.take(); }

  [[nodiscard]] bool is_woken() const noexcept { return woken_.load(std::memory_order_relaxed); }
  /// Acquire: the thread sees what every thread that has called wake() did before.
  [[nodiscard]] bool take_wake() noexcept {
    return is_woken() && woken_.exchange(false, std::memory_order_acquire);
  }
  /// A wake() that somebody has taken, and that is for the next. An exchange, so that it also passes on what
  /// was done before an earlier one.
  void keep_wake() noexcept { woken_.exchange(true, std::memory_order_seq_cst); }

  void lend() noexcept { lent_.fetch_add(1, std::memory_order_relaxed); }
  /// No worker has begun it.
  void take_back() noexcept { lent_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool has_lent() const noexcept { return lent_.load(std::memory_order_relaxed) != 0; }

  /// Whether another thread, of what was taken, is still here.
  [[nodiscard]] bool is_used() const noexcept {
    return lent_.load(std::memory_order_acquire) != 0 || bringing_.load(std::memory_order_acquire) != 0;
  }

  typename Mail::bell_type bell;

 private:
  template <class Inbox, class Item> void bring(Inbox& to, Item& item) noexcept {
    bringing_.fetch_add(1, std::memory_order_relaxed);
    to.push(item); // from here on the item may be gone
    poke();
    bringing_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in is_used()
  }

  typename Mail::posts posted_;
  typename Mail::messages messages_;
  typename Mail::returns returned_;
  atomic<int> lent_{0};     // until the worker has left
  atomic<int> bringing_{0}; // threads inside bring()
  atomic<bool> asleep_{false};
  atomic<bool> woken_{false};
};

} // namespace unio::driver
