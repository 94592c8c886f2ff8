// unio/file_lock.hpp: advisory locks on files and on ranges of their bytes. Included by file_handle.hpp.
//
//   lock_kind          shared or exclusive
//   file_lock          holds a lock; its destructor unlocks
//   async_lock_range   file_handle::lock_range, try_lock_range, co_lock_range, …
//   async_lock_file    file_handle::lock_file, try_lock_file, co_lock_file, …
//
// They are open-file-description locks (fcntl(2), F_OFD_SETLK), never the POSIX locks of a process: on a
// kernel or filesystem without them, locking fails. The owner of a lock is the open description. Guarantees:
//
//   holder killed          the kernel releases the lock when the last descriptor of the open file is closed:
//                          at the end of the process, unless a child or a process that received the
//                          descriptor still has it. The next owner is not notified. If operations on this
//                          descriptor are in flight on an io_uring, or it is registered with one, the release
//                          may come some 40 ms after the end of the process (measured on Linux 6.18): use a
//                          separate descriptor for locking
//   power loss             nothing is stored: nothing to recover
//   NFS                    between clients as the server's lock service provides; ENOLCK without one. A
//                          client cut off from its server for too long loses them (fcntl(2), "Lost locks").
//                          Not tested
//   threads of one process separately opened handles exclude each other, as processes do. One handle is one
//                          owner: a lock that overlaps another one held or being acquired through it is
//                          refused with EDEADLK, because the kernel would grant it and the first unlock would
//                          release both. An overlap through a clone cannot be detected: a caller's mistake
//   fork                   the child shares the open file and its lock, which is held until one of the two
//                          calls unlock() or both have closed the file. The parent's guards do nothing in the
//                          child
//   another descriptor on the inode closed   no effect
//   fairness               none: waiters retry; those asleep in the kernel come first
//   waiting cost           a blocking call without deadline and multiplexer sleeps in the kernel. All others
//                          retry after 1, 2, 4 and then every 8 ms, one system call each, without a thread
//   acquire cost           one system call, and one to unlock, each linear in the number of locks on the file
//   many entities          one guard for each range. Lock ranges in the order of offsets: deadlocks are not
//                          detected
//   shared mode            yes; not from one kind to the other
//
// The locks are advisory: they stop no process that does not ask for one. flock(2) neither sees nor respects
// them (on NFS it does); POSIX locks do.

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

class file_handle;

/// Shared locks do not exclude each other, and need a readable handle; exclusive locks need a writable one.
enum class lock_kind : std::uint8_t { shared, exclusive };

/// Holds a lock on a range of bytes, or nothing. Its destructor unlocks exactly that range.
///
/// Thread safety  distinct: safe, also on one handle; shared: no
/// Moved-from     holds nothing
/// Lifetime       the handle outlives it: closing it releases the lock; the guard then does nothing
/// Cost           one system call when it unlocks; one mutex of the process, never held during a system call
/// Size           48 bytes
class UNIO_API file_lock {
 public:
  file_lock() = default;
  file_lock(file_lock&& other) noexcept;
  /// Releases the lock that it held before.
  file_lock& operator=(file_lock&& other) noexcept;
  ~file_lock() {
    if (fd_ >= 0) give_back();
  }

  [[nodiscard]] bool is_held() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return is_held(); }
  [[nodiscard]] lock_kind kind() const noexcept { return kind_; }
  [[nodiscard]] extent_type offset() const noexcept { return first_; }
  /// For a lock on the whole file: up to the largest offset, 2^63 - 1.
  [[nodiscard]] extent_type bytes() const noexcept { return last_ - first_ + 1; }

  /// Unlocks now.
  ///
  /// Returns  nothing; also if it holds nothing, or its handle was closed
  /// Errors   ENOLCK, EIO, … as fcntl(2). It then holds the lock as before
  result<void> unlock() noexcept;
  /// Forgets the lock without unlocking it. The lock is held until the handle is closed, or until another
  /// lock through the handle covers its range: that is how to change the kind without a gap.
  void release() noexcept;

 private:
  friend struct detail::operation_access;
  int take(int fd, extent_type first, extent_type last, lock_kind kind, bool sleeps) noexcept;
  void give_back() noexcept;
  bool list() noexcept;
  void unlist() noexcept;
  void move_from(file_lock& other) noexcept;

  file_lock* next_ = nullptr; // in the list of its descriptor's bucket (src/handle/file_lock.cpp)
  file_lock** previous_ = nullptr;
  extent_type first_ = 0;
  extent_type last_ = 0;
  int fd_ = -1;
  std::uint32_t generation_ = 0; // of the descriptor's number: another, and the handle was closed
  std::uint32_t process_ = 0;    // how many forks away from the first
  lock_kind kind_ = lock_kind::shared;
};

/// Locks `bytes` bytes from `offset` on, which need not exist.
///
/// Returns       the guard: on the first call of result(); later one that holds nothing
/// Errors        condition::would_block, timed_out, canceled: then nothing is locked. EDEADLK: it overlaps a
///               lock through this handle. EBADF: the handle was not opened for the access that the kind
///               needs. EINVAL: no bytes. EOVERFLOW: it ends beyond the largest offset, 2^63 - 1. ENOLCK: the
///               filesystem has no locks, or the kernel no memory. Others as fcntl(2). EACCES, which some
///               network filesystems return, counts as "held by another"
/// Preconditions the handle is open, and outlives operation and guard
/// Concurrency   any number of operations on a handle, of any number of threads
/// Cancellation  a lock that was obtained nevertheless is returned; if result() is not called, it is released
/// Cost          no allocation; see above
/// Runs as       F_OFD_SETLK, retried, on every driver: rings have no operation for it, and no thread is
///               occupied · blocking without a deadline F_OFD_SETLKW
/// Source        fcntl(2), "Open file description locks"
UNIO_OPERATION(lock_range, file_lock, (file_handle&, h), (extent_type, offset), (extent_type, bytes),
               (lock_kind, how))

/// Locks the whole file, however long it is or becomes. Otherwise as async_lock_range.
UNIO_OPERATION(lock_file, file_lock, (file_handle&, h), (lock_kind, how))

} // namespace unio

#include <unio/file_handle.hpp> // the operations' constructors need it
