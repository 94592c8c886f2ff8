// unio/file_lock.hpp: advisory locks on files and on ranges of their bytes. Included by file_handle.hpp.
//
//   lock_kind          shared or exclusive
//   file_lock          holds a lock; its destructor unlocks
//   async_lock_range   file_handle::lock_range, try_lock_range, co_lock_range, …
//   async_lock_file    file_handle::lock_file, try_lock_file, co_lock_file, …
//
// They are open-file-description locks (fcntl(2), F_OFD_SETLK), never the POSIX locks of a process: where a
// kernel or a filesystem has none, locking fails. The owner of a lock is what one open() made. What it
// guarantees:
//
//   holder killed          the kernel releases the lock when the last descriptor of the open file is closed:
//                          at the end of the process, unless a child or a process that received the
//                          descriptor still has it. The next owner is not informed. If operations on this
//                          descriptor are in flight on an io_uring, or it is registered with one, the release
//                          may come some 40 ms after the end of the process (measured on Linux 6.18): use a
//                          separate descriptor for locking only
//   power loss             nothing is stored: nothing to recover
//   NFS                    between clients as the server's lock service provides; ENOLCK without one. A
//                          client that is cut off from its server for too long loses its locks (fcntl(2),
//                          "Lost locks"). Not tested
//   threads of one process separately opened handles exclude each other, as processes do. One handle is one
//                          owner: a lock that overlaps another one held or being acquired through the same
//                          handle is refused with EDEADLK, because the kernel would grant it and the first
//                          unlock would release both. An overlap through a clone of the handle cannot be
//                          detected, and is the caller's mistake
//   fork                   the child shares the open file and its lock, which is held until one of the two
//                          calls unlock() or both have closed the file. Destroying the parent's guards in the
//                          child unlocks nothing
//   another descriptor on the inode closed
//                          no effect
//   fairness               none: all waiters retry; those asleep in the kernel come before those that retry
//                          later
//   waiting cost           a blocking call without deadline and multiplexer sleeps in the kernel. All others
//                          retry after 1, 2, 4 and then every 8 ms, with one system call each, and occupy no
//                          thread
//   acquire cost           one system call, and one to unlock, each linear in the number of locks on the file
//   many entities          one guard for each range. Lock several ranges in the order of their offsets: the
//                          kernel detects no deadlocks
//   shared mode            yes; not from one kind to the other
//
// The locks are advisory: they stop no process that does not ask for one. flock(2) neither sees nor respects
// them (on NFS it does); POSIX locks do.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class file_handle;

namespace detail {
class lock_operation;
} // namespace detail

/// Shared locks do not exclude each other. A shared lock needs a handle that may read, an exclusive one a
/// handle that may write.
enum class lock_kind : std::uint8_t { shared, exclusive };

/// Holds a lock on a range of bytes, or nothing. Its destruction unlocks exactly that range, as long as its
/// handle is open.
///
/// Thread safety  distinct: safe, also on one handle; shared: no
/// Moved-from     holds nothing
/// Lifetime       the handle outlives it: closing the handle gives the lock back, and the guard then does
///                nothing
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
  /// lock through the handle covers its range: so one kind becomes the other without a gap.
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

namespace detail {

/// What locking a range and locking a file have in common.
class UNIO_API lock_operation : public io_operation {
 public:
  using result_type = io_result<file_lock>;
  /// The lock on the first call; later a guard that holds nothing.
  [[nodiscard]] result_type result() noexcept {
    int const r = outcome_value();
    if (r < 0) return detail::to_error_code(r);
    return static_cast<file_lock&&>(held_);
  }

 protected:
  lock_operation() = default;
  lock_operation(driver::operation_faces const& faces, file_handle& h, extent_type offset, extent_type bytes,
                 lock_kind kind, unio::deadline d) noexcept;

 private:
  friend struct operation_access;
  file_lock held_; // until result() is called
  extent_type first_ = 0;
  extent_type last_ = 0;
  int refused_ = 0; // why there is no such range, or 0
  lock_kind kind_ = lock_kind::shared;
};

} // namespace detail

/// Locks `bytes` bytes from `offset` on, which need not exist.
///
/// Returns       the guard
/// Errors        condition::would_block, timed_out, canceled: then nothing is locked. EDEADLK: it overlaps a
///               lock through this handle. EBADF: the handle was not opened for the access that the kind
///               needs. EINVAL: no bytes. EOVERFLOW: it ends beyond the largest offset, 2^63 - 1. ENOLCK: the
///               filesystem has no locks, or the kernel no memory. Others as fcntl(2). EACCES counts as "held
///               by another", for some network filesystems say it that way
/// Preconditions the handle is open, and outlives operation and guard
/// Buffers       none
/// Concurrency   any number of operations on a handle, of any number of threads
/// Cancellation  a lock that was obtained all the same is returned; if result() is not called, it is released
/// Cost          no allocation; see above
/// Runs as       F_OFD_SETLK, retried, on every driver: rings have no operation for it, and no thread is
///               occupied · blocking without a deadline F_OFD_SETLKW
/// Source        fcntl(2), "Open file description locks"
class UNIO_API async_lock_range : public detail::lock_operation,
                                  public detail::standard_sender<async_lock_range> {
 public:
  async_lock_range() = default;
  async_lock_range(file_handle& h, extent_type offset, extent_type bytes, lock_kind kind,
                   unio::deadline d = {}) noexcept
      : lock_operation(detail::lock_range_faces, h, offset, bytes, kind, d) {}
};

/// Locks the whole file, however long it is or becomes. Otherwise as async_lock_range.
class UNIO_API async_lock_file : public detail::lock_operation,
                                 public detail::standard_sender<async_lock_file> {
 public:
  async_lock_file() = default;
  async_lock_file(file_handle& h, lock_kind kind, unio::deadline d = {}) noexcept
      : lock_operation(detail::lock_file_faces, h, 0, extent_type{1} << 63, kind, d) {}
};

UNIO_SENDER_FORMS(async_lock_range, (file_handle & h, extent_type offset, extent_type bytes, lock_kind kind),
                  h, offset, bytes, kind)
UNIO_SENDER_FORMS(async_lock_file, (file_handle & h, lock_kind kind), h, kind)

} // namespace unio
