// unio/extend/foreign_lock.hpp: a mutex that a child of fork finds open, for objects of a loop not unio's.
//
// This header is C++11, for loops that are. It includes nothing of unio.

#pragma once

#include <mutex>

#define UNIO_API __attribute__((visibility("default"))) // as in config.hpp

namespace unio {
inline namespace v0_1 {

/// A mutex. A fork waits until no other thread holds it, so that the child finds it open, and what it guards
/// whole.
///
/// A thread that holds one makes and destroys none, takes no other, and does not fork.
///
/// Thread safety  distinct: yes; shared: lock() and unlock()
/// Lifetime       it is not held when it ends
/// Moved-from     cannot be moved
/// Cost           that of std::mutex; to make one and to end it a lock of the process; a fork takes all
class UNIO_API foreign_lock {
 public:
  foreign_lock();
  foreign_lock(foreign_lock const&) = delete;
  foreign_lock& operator=(foreign_lock const&) = delete;
  ~foreign_lock();

  /// Effects  waits until no thread holds it; the caller does from then on
  /// Errors   those of std::mutex::lock(), by exception
  void lock() { mutex_.lock(); }
  /// Effects  no thread holds it any more
  /// Errors   none
  /// Preconditions the caller holds it
  void unlock() { mutex_.unlock(); }

 private:
  friend struct foreign_locks;
  std::mutex mutex_;
  foreign_lock* next_; // of all
  foreign_lock* previous_;
};

} // namespace v0_1
} // namespace unio
