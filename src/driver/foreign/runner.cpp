#include "driver/foreign/runner.hpp"

#include "sys/calls.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"

#include <mutex>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

// Of the lists of all threads. Not held while a reactor is called, which may wait for its own lock.
constinit sys::process_lock mutex(sys::guarded::foreign_runners);

} // namespace

// Objects of the thread that are destroyed after this has ended may run a reactor: it is never destroyed, and
// takes no more.
struct foreign_runner::of_thread {
  struct ender {
    bool is_made = false;
    ~ender() { mine().end_all(); }
  };
  foreign_runner* first = nullptr;
  bool has_ended = false;

  static of_thread& mine() noexcept {
    static constinit thread_local of_thread t;
    return t;
  }
  // The list of a thread that a child has not is not looked at: its memory may be another thread's.
  static void adopt() noexcept {
    for (foreign_runner* r = mine().first; r != nullptr; r = r->next_)
      r->fork_generation_ = sys::fork_generation();
  }
  void end_all() noexcept {
    std::unique_lock held(mutex);
    has_ended = true;
    while (first != nullptr) {
      foreign_runner& r = *first;
      r.unlink();
      r.is_being_called_ = true;
      held.unlock();
      r.ends_(r.self_);
      held.lock();
      r.is_being_called_ = false; // from here on it may be gone
    }
  }
};

void foreign_runner::end() noexcept {
  std::unique_lock held(mutex);
  unlink();
  // Nor does a child wait for a thread that it has not.
  for (unsigned times = 0; is_being_called_ && fork_generation_ == sys::fork_generation(); ++times) {
    held.unlock();
    sys::give_way(times);
    held.lock();
  }
}

bool foreign_runner::bind() noexcept {
  static thread_local of_thread::ender at_end;
  of_thread& t = of_thread::mine();
  std::scoped_lock const held(mutex);
  unlink();
  if (t.has_ended) return false;
  at_end.is_made = true; // so that it is
  mutex.in_child(&of_thread::adopt);
  fork_generation_ = sys::fork_generation();
  thread_ = &t;
  previous_ = nullptr;
  next_ = std::exchange(t.first, this);
  if (next_ != nullptr) next_->previous_ = this;
  return true;
}

void foreign_runner::unbind() noexcept {
  std::scoped_lock const held(mutex);
  unlink();
}

void foreign_runner::unlink() noexcept {
  if (thread_ == nullptr) return;
  if (fork_generation_ != sys::fork_generation()) {
    thread_ = nullptr;
    return;
  }
  (previous_ != nullptr ? previous_->next_ : thread_->first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  thread_ = nullptr;
}

} // namespace unio::driver
