#include "core/thread_token.hpp"

#include <unio/stop_token.hpp>

#include <chrono>
#include <thread>

namespace unio::inline v0_1 {
// Held for a few instructions, never while a callback runs. The thread that holds it is the only one that
// changes the state, so that a plain store unlocks; attach() and detach() cost one read-modify-write each.
// Hence none can sleep for it: a thread that waits long lets the holder run.
void stop_source::lock() noexcept {
  for (int spins = 0;; ++spins) {
    std::uint32_t s = state_.load(std::memory_order_relaxed);
    if ((s & bit_locked) != 0) {
      // The holder was preempted; by this thread, if that has a higher priority of real time: then a yield
      // does not let it run.
      if (spins >= 1024) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      } else if (spins >= 64) {
        std::this_thread::yield();
      }
    } else if (state_.compare_exchange_weak(s, s | bit_locked,
                                            std::memory_order_acquire)) { // pairs: unlock()
      return;
    }
  }
}

void stop_source::unlock() noexcept {
  state_.store(state_.load(std::memory_order_relaxed) & ~bit_locked, std::memory_order_release);
}

bool stop_node::attach(stop_token token) noexcept {
  stop_source& s = *token.source_;
  previous_ = this;
  if (s.stop_requested()) return false;
  s.lock();
  bool const late = s.stop_requested();
  if (!late) {
    next_ = s.first_;
    previous_ = nullptr;
    if (next_ != nullptr) next_->previous_ = this;
    s.first_ = this;
  }
  s.unlock();
  return !late;
}

void stop_node::detach(stop_token token) noexcept {
  stop_source& s = *token.source_;
  s.lock();
  if (previous_ != this) {
    (previous_ != nullptr ? previous_->next_ : s.first_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    previous_ = this;
  }
  bool const must_wait = s.running_ == this && s.runner_ != this_thread_token();
  if (s.running_ == this && !must_wait)
    s.running_ = nullptr; // called from inside its own callback: request_stop() forgets it
  std::uint32_t const calls = s.running_done_.load(std::memory_order_relaxed);
  s.unlock();
  if (!must_wait) return;
  s.running_done_.wait(calls, std::memory_order_acquire); // pairs with the release after the call
  s.lock(); // what that thread does then with a source that ends now, it does under the lock
  s.unlock();
}

bool stop_source::request_stop() noexcept {
  lock();
  if (stop_requested()) return unlock(), false;
  state_.store(bit_locked | bit_requested, std::memory_order_release);
  runner_ = this_thread_token();
  while (first_ != nullptr) {
    stop_node& n = *first_;
    first_ = n.next_;
    if (first_ != nullptr) first_->previous_ = nullptr;
    n.previous_ = &n;
    running_ = &n;
    unlock();
    // May destroy `n`, and on another thread then this source, but not before detach() has waited.
    n.function_(n);
    lock();
    running_ = nullptr;
    running_done_.fetch_add(1, std::memory_order_release);
    running_done_.notify_all();
  }
  unlock();
  return true;
}

} // namespace unio
