// src/fs/reporting.hpp: failures and progress of the algorithms that change trees.

#pragma once

#include "fs/tree.hpp"

#include <atomic>
#include <mutex>

namespace unio::inline v0_1::fs::trees {

/// Passes failures and progress to a sink, from one thread at a time.
class reporting {
 public:
  explicit reporting(tree_sink* sink) noexcept : sink_(sink) {}

  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> shared_bytes{0};
  std::atomic<std::uint64_t> total_entries{0};
  std::atomic<std::uint64_t> total_bytes{0};
  std::atomic<bool> total_is_known{false};

  void fail(std::string_view path, std::string_view what, std::int64_t why,
            std::string_view reason = {}) noexcept {
    fail({path, what, code(why), reason});
  }
  void fail(tree_failure const& f) noexcept {
    std::lock_guard const lock(mutex_);
    failures.add(f);
    if (sink_ != nullptr) sink_->failed(f);
  }
  /// Now and then; `last`: certainly.
  void tell(bool last = false) noexcept {
    if (sink_ == nullptr) return;
    std::int64_t const now = sys::steady_now();
    if (!last && now < next_.load(std::memory_order_relaxed)) return;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (last) {
      lock.lock();
    } else if (!lock.try_lock()) {
      return;
    }
    next_.store(now + 20'000'000, std::memory_order_relaxed);
    auto const get = [](auto const& n) { return n.load(std::memory_order_relaxed); };
    sink_->progress({get(entries), get(bytes), get(shared_bytes), get(total_entries), get(total_bytes),
                     get(total_is_known)});
  }

  tree_failures failures; // while no thread works

 private:
  tree_sink* sink_;
  std::mutex mutex_;
  std::atomic<std::int64_t> next_{0};
};

} // namespace unio::fs::trees
