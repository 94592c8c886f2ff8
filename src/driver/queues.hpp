// src/driver/queues.hpp: the intrusive queues of a driver. Nothing here allocates or locks.
//
//   operation_queue   first in, first out, with removal from the middle
//   deadline_queue    the earliest deadline first: a pairing heap
//   work_queue        what was posted
//   inbox<T>          from any thread to the one that owns it

#pragma once

#include "sys/sanitizer.hpp"

#include <unio/operation.hpp>

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::driver {

/// Not 0 if any of these is not null. Several such, with | between them, are asked by one branch.
template <class... T> [[nodiscard]] inline std::uintptr_t any_of(T const*... pointers) noexcept {
  return (reinterpret_cast<std::uintptr_t>(pointers) | ...);
}

/// The queue that an operation is in (operation_links::queue).
enum class queue_name : std::uint8_t { none, ready, due, later, to_submit, to_cancel, unclaimed };

/// Operations in the order in which they came, linked through operation_links. Every operation is O(1).
class operation_queue {
 public:
  explicit constexpr operation_queue(queue_name name) noexcept : name_(name) {}

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] io_operation* first() const noexcept { return first_; }
  [[nodiscard]] io_operation* last() const noexcept { return last_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool contains(io_operation const& op) const noexcept { return op.links.is.queue == name_; }

  /// Preconditions: it is in none.
  void push(io_operation& op) noexcept {
    if constexpr (sys::is_sanitized)
      UNIO_EXPECTS(op.links.is.queue == queue_name::none, "an operation is in at most one queue");
    op.links.is.queue = name_;
    append(op);
  }
  /// The same where its name is known when compiling: one instruction instead of six.
  template <queue_name Name> void push_as(io_operation& op) noexcept {
    if constexpr (sys::is_sanitized)
      UNIO_EXPECTS(op.links.is.queue == queue_name::none && name_ == Name, "an operation is in one queue");
    op.links.is.queue =
        static_cast<queue_name>(static_cast<unsigned>(op.links.is.queue) | static_cast<unsigned>(Name));
    append(op);
  }
  void remove(io_operation& op) noexcept {
    --size_;
    (op.links.previous != nullptr ? op.links.previous->links.next : first_) = op.links.next;
    (op.links.next != nullptr ? op.links.next->links.previous : last_) = op.links.previous;
    op.links.next = op.links.previous = nullptr;
    op.links.is.queue = queue_name::none;
  }
  io_operation* pop() noexcept { return first_ != nullptr ? &pop_first() : nullptr; }
  /// Preconditions: not empty().
  io_operation& pop_first() noexcept {
    io_operation& op = *first_;
    --size_;
    first_ = op.links.next;
    (first_ != nullptr ? first_->links.previous : last_) = nullptr;
    op.links.is.queue = queue_name::none;
    return op;
  }

 private:
  void append(io_operation& op) noexcept {
    op.links.next = nullptr;
    op.links.previous = last_;
    (last_ != nullptr ? last_->links.next : first_) = &op;
    last_ = &op;
    ++size_;
  }

  io_operation* first_ = nullptr;
  io_operation* last_ = nullptr;
  int size_ = 0;
  queue_name name_;
};

/// Operations by operation_links::due. Insertion O(1); removal of the earliest or of any other O(log n)
/// amortised (Fredman, Sedgewick, Sleator, Tarjan: The pairing heap, 1986).
///
/// `heap_previous` is the left sibling, or for a first child the parent.
class deadline_queue {
 public:
  [[nodiscard]] io_operation* earliest() const noexcept { return root_; }

  void insert(io_operation& op) noexcept {
    op.links.heap_child = op.links.heap_sibling = op.links.heap_previous = nullptr;
    op.links.is.in_heap = true;
    root_ = root_ == nullptr ? &op : meld(root_, &op);
  }
  [[gnu::noinline]] void remove(io_operation& op) noexcept {
    operation_links& l = op.links;
    io_operation* const children = meld_siblings(l.heap_child);
    if (&op == root_) {
      root_ = children;
    } else {
      io_operation* const previous = l.heap_previous;
      (previous->links.heap_child == &op ? previous->links.heap_child : previous->links.heap_sibling) =
          l.heap_sibling;
      if (l.heap_sibling != nullptr) l.heap_sibling->links.heap_previous = previous;
      if (children != nullptr) root_ = meld(root_, children);
    }
    l.heap_child = l.heap_sibling = l.heap_previous = nullptr;
    l.is.in_heap = false;
  }

 private:
  // The one that is later becomes the first child of the other.
  static io_operation* meld(io_operation* a, io_operation* b) noexcept {
    if (b->links.due < a->links.due) {
      io_operation* const t = a;
      a = b;
      b = t;
    }
    b->links.heap_sibling = a->links.heap_child;
    if (a->links.heap_child != nullptr) a->links.heap_child->links.heap_previous = b;
    b->links.heap_previous = a;
    a->links.heap_child = b;
    return a;
  }
  // Two passes, left to right in pairs and back, without recursion: the pairs are chained through
  // heap_previous.
  static io_operation* meld_siblings(io_operation* first) noexcept {
    io_operation* pairs = nullptr;
    while (first != nullptr) {
      io_operation* const a = first;
      io_operation* const b = a->links.heap_sibling;
      first = b != nullptr ? b->links.heap_sibling : nullptr;
      a->links.heap_sibling = nullptr;
      io_operation* pair = a;
      if (b != nullptr) {
        b->links.heap_sibling = nullptr;
        pair = meld(a, b);
      }
      pair->links.heap_previous = pairs;
      pairs = pair;
    }
    io_operation* all = nullptr;
    while (pairs != nullptr) {
      io_operation* const next = pairs->links.heap_previous;
      pairs->links.heap_previous = nullptr;
      all = all == nullptr ? pairs : meld(all, pairs);
      pairs = next;
    }
    return all;
  }

  io_operation* root_ = nullptr;
};

/// Posted work, first in, first out. All is O(1) but remove().
class work_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] work const* first() const noexcept { return first_; }
  [[nodiscard]] bool has_one() const noexcept { return first_ != nullptr && first_ == last_; }
  void push(work& w) noexcept {
    w.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &w;
    last_ = &w;
  }
  work* pop() noexcept {
    work* const w = first_;
    if (w == nullptr) return nullptr;
    first_ = w->next;
    if (first_ == nullptr) last_ = nullptr;
    return w;
  }
  /// Adds all of another, which is empty afterwards.
  void append(work_queue& other) noexcept {
    if (other.empty()) return;
    (last_ != nullptr ? last_->next : first_) = other.first_;
    last_ = other.last_;
    other = {};
  }
  /// True if it was in here.
  bool remove(work& w) noexcept {
    work* previous = nullptr;
    for (work* p = first_; p != nullptr; previous = p, p = p->next) {
      if (p != &w) continue;
      (previous == nullptr ? first_ : previous->next) = w.next;
      if (last_ == &w) last_ = previous;
      return true;
    }
    return false;
  }

 private:
  work* first_ = nullptr;
  work* last_ = nullptr;
};

/// Many threads push, one takes all at once, in the order of the pushes. `Link::next` is the member that
/// links them. The lowest bit of the head says that its item is the only one: to know that no thread has to
/// look at the item, which another one may have taken.
template <class T, class Link, template <class> class Atomic = std::atomic> class inbox {
  static_assert(alignof(T) > 1);

 public:
  void push(T& item) noexcept {
    T* head = head_.load(std::memory_order_relaxed);
    T* pushed = nullptr;
    do {
      Link::next(item) = item_of(head);
      pushed = head == nullptr ? only(item) : &item;
    } while (
        !head_.compare_exchange_weak(head, pushed, std::memory_order_seq_cst, std::memory_order_relaxed));
  }
  /// seq_cst on both sides: pairs with the sleeper's flag (mailbox.hpp, wake_gate.hpp), so that either the
  /// sleeper sees the item or the pusher sees the sleeper.
  [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }
  /// As any_of() those in it.
  [[nodiscard]] std::uintptr_t any() const noexcept { return any_of(head_.load(std::memory_order_seq_cst)); }
  [[nodiscard]] T* take() noexcept {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    T* item = item_of(head_.exchange(nullptr, std::memory_order_acq_rel)); // release: see work_slot::collect
    T* reversed = nullptr;
    while (item != nullptr) {
      T* const next = Link::next(*item);
      Link::next(*item) = reversed;
      reversed = item;
      item = next;
    }
    return reversed;
  }
  /// The only item. Null: there are more, or none. From any thread.
  [[nodiscard]] T* take_only() noexcept {
    T* head = head_.load(std::memory_order_relaxed);
    if (head == item_of(head)) return nullptr;
    bool const taken =
        head_.compare_exchange_strong(head, nullptr, std::memory_order_acq_rel, std::memory_order_relaxed);
    return taken ? item_of(head) : nullptr;
  }

 private:
  static T* only(T& item) noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(&item) | 1);
  }
  static T* item_of(T* head) noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(head) & ~std::uintptr_t{1});
  }

  Atomic<T*> head_{nullptr};
};

struct work_link {
  static work*& next(work& w) noexcept { return w.next; }
};
struct message_link {
  static io_operation*& next(io_operation& op) noexcept { return op.next_message(); }
};
struct queue_link {
  static io_operation*& next(io_operation& op) noexcept { return op.links.next; }
};

} // namespace unio::driver
