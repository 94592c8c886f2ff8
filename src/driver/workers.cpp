#include "driver/workers.hpp"

#include "driver/engine.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"
#include "sys/threads.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>

namespace unio::driver {
namespace {

// The engine that an operation belongs to while a worker has it is its multiplexer.
class pool {
 public:
  void give(io_operation& op) noexcept {
    std::unique_lock lock(mutex_);
    queue_.push(op);
    if (idle_ == 0 && threads_ < max_workers) grow();
    if (threads_ == 0) { // not one could be made: the caller's thread has to block
      queue_.remove(op);
      lock.unlock();
      perform(op);
      return;
    }
    lock.unlock();
    wake_.notify_one();
  }

  bool take_back(io_operation& op) noexcept {
    std::lock_guard const lock(mutex_);
    if (!queue_.contains(op)) return false;
    queue_.remove(op);
    return true;
  }

 private:
  void grow() noexcept {
    auto const run = [](void* self) -> void* {
      static_cast<pool*>(self)->work();
      return nullptr;
    };
    if (sys::start_thread(run, this) == 0) ++threads_; // else those that there are take turns
  }

  static void perform(io_operation& op) noexcept {
    op.set_outcome(op.faces().perform(op, attempt::blocking));
    static_cast<engine&>(*op.multiplexer()).worker_done(op);
  }

  void work() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      io_operation* const op = queue_.pop();
      if (op == nullptr) {
        ++idle_;
        wake_.wait(lock);
        --idle_;
        continue;
      }
      lock.unlock();
      perform(*op);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  operation_queue queue_{queue_name::worker};
  int threads_ = 0;
  int idle_ = 0;
};

// Never destroyed: its threads use it until the process ends. A child made by fork has none of the threads,
// and perhaps a lock that one of them held: it begins with a new pool in the place of the old.
pool& workers() noexcept {
  alignas(pool) static std::byte storage[sizeof(pool)];
  static std::atomic_flag making;
  static pool* current = nullptr;
  static unsigned generation = 0;
  while (making.test_and_set(std::memory_order_acquire)) sys::sched_yield();
  if (current == nullptr || generation != sys::fork_generation()) {
    current = new (storage) pool;
    generation = sys::fork_generation();
  }
  making.clear(std::memory_order_release);
  return *current;
}

} // namespace

void give_to_worker(io_operation& op) noexcept { workers().give(op); }

bool take_from_workers(io_operation& op) noexcept { return workers().take_back(op); }

} // namespace unio::driver
