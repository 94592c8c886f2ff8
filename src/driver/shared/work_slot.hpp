// src/driver/shared/work_slot.hpp: posted work that waits for one thread, and that others may take.

#pragma once

#include "driver/queues.hpp"
#include "sys/short_lock.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace unio::inline v0_1::driver {

/// An inbox, into which any thread pushes with one compare-and-exchange, and behind it a queue under a lock
/// that is held for a few instructions.
class alignas(64) work_slot {
 public:
  /// From any thread. seq_cst by the inbox.
  void push(work& w) noexcept { inbox_.push(w); }
  /// Whether something waits here. seq_cst: see wake_gate.hpp.
  [[nodiscard]] bool has_work() const noexcept {
    return !inbox_.empty() || queued_.load(std::memory_order_seq_cst) != 0;
  }
  [[nodiscard]] bool has_more_than_one() const noexcept {
    return queued_.load(std::memory_order_relaxed) > 1;
  }
  /// The first; `left`, if given, becomes how many wait, the first included.
  work* pop(int* left = nullptr) noexcept {
    std::lock_guard const lock(lock_);
    if (left != nullptr || queue_.empty()) collect();
    work* const w = queue_.pop();
    int const n = queued_.load(std::memory_order_relaxed);
    if (left != nullptr) *left = n;
    if (w != nullptr) queued_.store(n - 1, std::memory_order_relaxed);
    return w;
  }
  /// Moves one part in `parts` of it, and not more than `most`, to another slot.
  bool give(work_slot& to, int parts, int most) noexcept {
    work_queue moving;
    int n = 0;
    {
      std::lock_guard const lock(lock_);
      collect();
      int const here = queued_.load(std::memory_order_relaxed);
      for (int const wanted = std::min(most, (here + parts - 1) / parts); n < wanted; ++n)
        moving.push(*queue_.pop());
      queued_.store(here - n, std::memory_order_relaxed);
    }
    if (n == 0) return false;
    std::lock_guard const lock(to.lock_);
    to.queue_.append(moving);
    to.queued_.fetch_add(n, std::memory_order_relaxed);
    return true;
  }
  bool remove(work& w) noexcept {
    std::lock_guard const lock(lock_);
    collect();
    if (!queue_.remove(w)) return false;
    queued_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

 private:
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
  std::atomic<int> queued_{0}; // how many are in queue_; changed under the lock
};

} // namespace unio::driver
