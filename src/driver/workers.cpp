#include "driver/workers.hpp"

#include "driver/engine.hpp"
#include "sys/fork.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace unio::driver {
namespace {

// The engine that an operation belongs to while a worker has it is its multiplexer.
class pool {
 public:
  void give(io_operation& op) noexcept {
    std::unique_lock lock(mutex_);
    queue_.push(op);
    if (idle_ == 0 && threads_ < max_workers) grow();
    if (threads_ == 0) {  // not one could be made: the caller's thread has to block
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
#if UNIO_HAS_EXCEPTIONS
    try {
      std::thread([this] { work(); }).detach();
      ++threads_;
    } catch (std::system_error const&) {  // no more threads to be had; those that there are take turns
    }
#else
    std::thread([this] { work(); }).detach();
    ++threads_;
#endif
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

// Never destroyed: detached threads use it until the process ends. A child made by fork has none of the threads, so it
// starts with a pool of its own.
pool& workers() noexcept {
  static std::mutex making;
  static pool* current = nullptr;
  static unsigned generation = 0;
  std::lock_guard const lock(making);
  if (current == nullptr || generation != sys::fork_generation()) {
    current = new (std::nothrow) pool;
    generation = sys::fork_generation();
  }
  return *current;
}

}  // namespace

void give_to_worker(io_operation& op) noexcept { workers().give(op); }

bool take_from_workers(io_operation& op) noexcept { return workers().take_back(op); }

}  // namespace unio::driver
