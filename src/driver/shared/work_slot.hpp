// src/driver/shared/work_slot.hpp: work that waits for one thread, and that others may take: what was posted,
// in its order, and what the thread has forked, the newest first.

#pragma once

#include "driver/queues.hpp"
#include "driver/shared/newest_first.hpp"
#include "sys/short_lock.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace unio::inline v0_1::driver {

/// An inbox, into which any thread pushes with one compare-and-exchange, after it a queue under a lock that
/// is held for a few instructions, and a stack, onto which its thread pushes. A thread that
/// posts one thing at a time to itself takes it without the lock.
class alignas(64) work_slot {
 public:
  /// From any thread. seq_cst by the inbox.
  void push(work& w) noexcept { inbox_.push(w); }
  /// From its thread. seq_cst by the stack.
  void fork(work& w) noexcept { forked_.push(w); }
  /// Whether something waits here. seq_cst: see wake_gate.hpp.
  [[nodiscard]] bool has_work() const noexcept {
    return !forked_.empty() || !inbox_.empty() || queued_.load(std::memory_order_seq_cst) != 0;
  }
  [[nodiscard]] bool has_more_than_one() const noexcept { return queued() > 1; }
  /// The same without those in the inbox: a hint.
  [[nodiscard]] int queued() const noexcept { return queued_.load(std::memory_order_relaxed); }
  /// The first that was posted; `left`, if given, becomes how many were, the first included.
  work* pop(int* left = nullptr) noexcept {
    std::lock_guard const lock(lock_);
    if (left != nullptr || queue_.empty()) collect();
    work* const w = queue_.pop();
    int const n = queued_.load(std::memory_order_relaxed);
    if (left != nullptr) *left = n;
    if (w != nullptr) queued_.store(n - 1, std::memory_order_release);
    return w;
  }
  /// On its thread, the only one that pushes here: what was posted, if that is all. Without the lock.
  work* pop_only() noexcept { return queued() == 0 ? inbox_.take_only() : nullptr; }
  /// The first that was posted, if `wanted(n)` of n; that is called under the lock.
  template <class Wanted> work* pop_if(Wanted wanted) noexcept {
    std::lock_guard const lock(lock_);
    collect();
    int const n = queued_.load(std::memory_order_relaxed);
    if (n == 0 || !wanted(n)) return nullptr;
    queued_.store(n - 1, std::memory_order_release);
    return queue_.pop();
  }
  /// How many of what was posted wait: a hint as soon as it is known.
  [[nodiscard]] int waiting() noexcept {
    std::lock_guard const lock(lock_);
    collect();
    return queued();
  }
  /// On its thread: the newest that it has forked.
  work* pop_forked() noexcept {
    if (!forked_.may_have_one()) return nullptr;
    std::lock_guard const lock(lock_);
    return forked_.pop();
  }
  /// Moves one part in `parts` of what was posted, and not more than `most`, to another slot.
  bool give(work_slot& to, int parts, int most) noexcept {
    work_queue moving;
    int n = 0;
    {
      std::lock_guard const lock(lock_);
      collect();
      int const here = queued_.load(std::memory_order_relaxed);
      for (int const wanted = std::min(most, (here + parts - 1) / parts); n < wanted; ++n)
        moving.push(*queue_.pop());
      queued_.store(here - n, std::memory_order_release);
    }
    return to.receive(moving, n);
  }
  /// Moves the older half of what its thread has forked to the slot of the calling thread, as if that had
  /// forked it.
  bool give_older(work_slot& mine) noexcept {
    work* oldest = nullptr;
    {
      std::lock_guard const lock(lock_);
      oldest = forked_.take_oldest([](int all) { return (all + 1) / 2; });
    }
    bool const any = oldest != nullptr;
    while (oldest != nullptr) {
      work* const newer = oldest->next;
      mine.fork(*oldest);
      oldest = newer;
    }
    return any;
  }
  /// Moves the oldest that its thread has forked to another slot, as if it was posted there. Of many it is
  /// the older half: to find the oldest costs a look at each.
  bool give_oldest(work_slot& to) noexcept {
    work_queue moving;
    int n = 0;
    {
      std::lock_guard const lock(lock_);
      n = take_oldest(moving);
    }
    return to.receive(moving, n);
  }
  /// The same to its own queue, so that the oldest do not wait for ever.
  void age() noexcept {
    if (!forked_.may_have_one()) return;
    std::lock_guard const lock(lock_);
    int const here = queued_.load(std::memory_order_relaxed);
    queued_.store(here + 1, std::memory_order_relaxed); // a promise, as in collect()
    queued_.store(here + take_oldest(queue_), std::memory_order_relaxed);
  }
  /// On its thread.
  [[nodiscard]] bool has_forked() const noexcept { return forked_.may_have_one(); }
  bool remove(work& w) noexcept {
    std::lock_guard const lock(lock_);
    if (forked_.remove(w)) return true;
    collect();
    if (!queue_.remove(w)) return false;
    queued_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

 private:
  // Under the lock. Returns how many they are.
  int take_oldest(work_queue& to) noexcept {
    int n = 0;
    for (work* w = forked_.take_oldest([](int all) { return all > 1024 ? all / 2 : std::min(all, 1); });
         w != nullptr; ++n) {
      work* const newer = w->next;
      to.push(*w);
      w = newer;
    }
    return n;
  }
  bool receive(work_queue& moved, int n) noexcept {
    if (n == 0) return false;
    std::lock_guard const lock(lock_);
    queue_.append(moved);
    queued_.fetch_add(n, std::memory_order_relaxed);
    return true;
  }
  // Empties the inbox into the queue. A thread that sees the inbox empty (acquire) must not see nothing
  // queued, so a promise is counted before the inbox is emptied (release).
  void collect() noexcept {
    if (inbox_.empty()) return;
    int n = queued_.load(std::memory_order_relaxed);
    queued_.store(n + 1, std::memory_order_relaxed);
    for (work* w = inbox_.take(); w != nullptr; ++n) {
      work* const next = w->next;
      queue_.push(*w);
      w = next;
    }
    queued_.store(n, std::memory_order_relaxed);
  }

  inbox<work, work_link> inbox_;
  alignas(64) sys::short_lock lock_;
  work_queue queue_;
  // How many are in queue_; changed under the lock. Release, where some leave it: a thread that sees them
  // gone sees that they count as pending (count_work).
  std::atomic<int> queued_{0};
  newest_first<work, work_link> forked_;
};

} // namespace unio::driver
