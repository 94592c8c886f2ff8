// src/driver/shared/newest_first.hpp: the tasks that one thread has forked: it takes the newest, others the
// oldest.
//
// A stack, linked through its items. Its thread pushes without a lock; all that take something hold one, its
// thread included. So a link between two items changes under the lock only, and the head in two ways:
//
//   push       head: h ──► item, whose link is h      by compare-and-exchange, its thread alone
//   pop        head: h ──► what is behind h           by a store: its thread is here, and does not push
//   cut        head: h ──► what is behind h           by compare-and-exchange, while its thread may push; if
//                                                     that was first, the link that leads to h
//
// An item never returns while its thread looks at the head: only that thread pushes.
//
// tests/memory_model/newest_first_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include <atomic>

namespace unio::inline v0_1::driver {

/// `Link::next` is the member that links them.
template <class T, class Link, template <class> class Atomic = std::atomic> class newest_first {
 public:
  /// seq_cst: see wake_gate.hpp.
  [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }
  /// Without the lock, by its thread: false only if there is nothing.
  [[nodiscard]] bool may_have_one() const noexcept {
    return head_.load(std::memory_order_relaxed) != nullptr;
  }
  /// By its thread.
  void push(T& item) noexcept {
    T* head = head_.load(std::memory_order_relaxed);
    do Link::next(item) = head;
    while (!head_.compare_exchange_weak(head, &item, std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  // With the lock.

  /// By its thread: the newest.
  T* pop() noexcept {
    T* const newest = head_.load(std::memory_order_relaxed); // its own thread has pushed it
    // Release: a thread that sees nothing here sees what was counted before.
    if (newest != nullptr) head_.store(Link::next(*newest), std::memory_order_release);
    return newest;
  }
  /// Takes the oldest, `share(n)` of n. Returns them linked, the oldest first.
  template <class Share> T* take_oldest(Share share) noexcept {
    T* const first = head_.load(std::memory_order_acquire); // pairs with the release in push()
    int n = 0;
    for (T* p = first; p != nullptr; p = Link::next(*p)) ++n;
    int const wanted = share(n);
    if (wanted <= 0) return nullptr;
    T* newest_taken = first;
    for (int i = n; i != wanted; --i) newest_taken = Link::next(*newest_taken);
    link_past(*newest_taken, nullptr);
    T* oldest = nullptr;
    while (newest_taken != nullptr) {
      T* const older = Link::next(*newest_taken);
      Link::next(*newest_taken) = oldest;
      oldest = newest_taken;
      newest_taken = older;
    }
    return oldest;
  }
  /// True if it was in here.
  bool remove(T& item) noexcept {
    for (T* p = head_.load(std::memory_order_acquire); p != nullptr; p = Link::next(*p)) {
      if (p != &item) continue;
      link_past(item, Link::next(item));
      return true;
    }
    return false;
  }

 private:
  // What leads to `item` leads to `behind` instead.
  void link_past(T& item, T* behind) noexcept {
    T* p = &item;
    // Release: a thread that sees nothing here sees where it is counted then (work_slot::age).
    if (head_.compare_exchange_strong(p, behind, std::memory_order_acq_rel)) return;
    for (T* next = Link::next(*p); next != &item; next = Link::next(*p)) p = next;
    Link::next(*p) = behind;
  }

  Atomic<T*> head_{nullptr};
};

} // namespace unio::driver
