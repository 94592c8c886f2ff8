// unio/file_lock.hpp: advisory locks on files and on ranges of their bytes. Included by file_handle.hpp.
//
//   lock_kind          shared or exclusive
//   file_lock          holds a lock; its end gives it back
//   async_lock_range   file_handle::lock_range, try_lock_range, co_lock_range, …
//   async_lock_file    file_handle::lock_file, try_lock_file, co_lock_file, …
//
// They are open-file-description locks (fcntl(2), F_OFD_SETLK), never the POSIX locks of a process: where a kernel or a
// filesystem has none, locking fails. The owner of a lock is what one open() made. What it guarantees:
//
//   holder killed          the kernel gives the lock back with the last descriptor of the open file: when the process ends,
//                          unless a child or who was sent the descriptor still has it. Nobody is told. While operations on
//                          that very descriptor are in flight on an io_uring, or if it is registered with one, that may be
//                          some 40 ms after the end of the process (measured on Linux 6.18): lock with a descriptor of its
//                          own, which nothing is read or written through
//   power loss             nothing is stored: nothing to recover
//   NFS                    as the server's lock service has it, between clients; ENOLCK without one. A client that was cut off
//                          from its server for too long loses its locks (fcntl(2), "Lost locks"). Not tested
//   threads of one process handles that were opened separately exclude each other, as processes do. One handle is one owner:
//                          what overlaps a lock that it holds, or is just being locked through it, is refused with EDEADLK,
//                          for the kernel would grant it, and the first to be unlocked would unlock both. Through a clone of
//                          the handle that cannot be noticed, and is a mistake
//   fork                   the child shares the open file, and with it the lock: held until one of the two calls unlock(), or
//                          both have closed it. What the child destroys of its parent's guards unlocks nothing
//   another descriptor on the inode closed
//                          no effect
//   fairness               none: all who wait try again, and those who sleep in the kernel before those who come back later
//   waiting cost           a blocking call without deadline and multiplexer sleeps in the kernel. All else tries again after
//                          1, 2, 4 and then every 8 ms, with one system call, and occupies no thread
//   acquire cost           one system call, and one to unlock, each linear in the number of locks on the file
//   many entities          one guard for each range. Whoever takes several takes them by rising offset, or waits for ever for
//                          one who waits for him: the kernel looks for no deadlocks
//   shared mode            yes; not from one kind to the other
//
// Who does not ask for a lock is not kept out. flock(2) neither sees nor respects these (it does on NFS); POSIX locks do.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class file_handle;

namespace detail {
class lock_operation;
extern UNIO_API operation_faces const lock_range_faces, lock_file_faces;
} // namespace detail

/// A shared lock goes together with other shared ones. It needs a handle that may read, an exclusive one a handle that may
/// write.
enum class lock_kind : std::uint8_t { shared, exclusive };

/// Holds a lock on a range of bytes, or nothing. Its destruction unlocks exactly that range, as long as its handle is open.
///
/// Thread safety  distinct: safe, also on one handle; shared: no
/// Moved-from     holds nothing
/// Lifetime       the handle outlives it: closing the handle gives the lock back, and the guard then does nothing
/// Cost           one system call when it unlocks; one mutex of the process, never held during a system call
/// Size           48 bytes
class UNIO_API file_lock {
 public:
  file_lock() = default;
  file_lock(file_lock&& other) noexcept;
  /// Unlocks what it held before.
  file_lock& operator=(file_lock&& other) noexcept;
  ~file_lock() {
    if (fd_ >= 0) give_back();
  }

  [[nodiscard]] bool is_held() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return is_held(); }
  [[nodiscard]] lock_kind kind() const noexcept { return kind_; }
  [[nodiscard]] extent_type offset() const noexcept { return first_; }
  /// All from offset() to the largest offset there is, 2^63 - 1, where it holds the whole file.
  [[nodiscard]] extent_type bytes() const noexcept { return last_ - first_ + 1; }

  /// Unlocks now.
  ///
  /// Returns  nothing; also if it holds nothing, or its handle was closed
  /// Errors   ENOLCK, EIO, … as fcntl(2). It then holds the lock as before
  result<void> unlock() noexcept;
  /// Forgets the lock without unlocking it. It is held until the handle is closed, or what is locked through the handle
  /// covers it: that is how one kind becomes the other without a moment in between.
  void release() noexcept;

 private:
  friend struct detail::operation_access;
  int take(int fd, extent_type first, extent_type last, lock_kind kind, bool sleeps) noexcept;
  void give_back() noexcept;
  bool list() noexcept;
  void unlist() noexcept;
  void move_from(file_lock& other) noexcept;

  file_lock* next_ =
      nullptr; // the list of what is held through a descriptor of the same bucket (file_lock.cpp)
  file_lock** previous_ = nullptr;
  extent_type first_ = 0;
  extent_type last_ = 0;
  int fd_ = -1;
  std::uint32_t generation_ = 0; // of the descriptor's number: another, and the handle was closed
  std::uint32_t process_ = 0;    // how many forks away from the first
  lock_kind kind_ = lock_kind::shared;
};

namespace detail {

/// What locking a range and locking a file have in common, which is all but the range.
class UNIO_API lock_operation : public io_operation {
 public:
  using result_type = io_result<file_lock>;
  /// The lock, the first time that it is asked; after that a guard that holds nothing.
  [[nodiscard]] result_type result() noexcept {
    int const r = outcome_value();
    if (r < 0) return detail::to_error_code(r);
    return static_cast<file_lock&&>(held_);
  }

 protected:
  lock_operation() = default;
  lock_operation(operation_faces const& faces, file_handle& h, extent_type offset, extent_type bytes,
                 lock_kind kind, unio::deadline d) noexcept;

 private:
  friend struct operation_access;
  file_lock held_; // until somebody asks for it
  extent_type first_ = 0;
  extent_type last_ = 0;
  int refused_ = 0; // why there is no such range, or 0
  lock_kind kind_ = lock_kind::shared;
};

} // namespace detail

/// Locks `bytes` bytes from `offset` on, which need not exist.
///
/// Returns       the guard
/// Errors        condition::would_block, timed_out, canceled: then nothing is locked. EDEADLK: it overlaps what is locked through
///               this handle. EBADF: the handle was not opened for what the kind needs. EINVAL: no bytes. EOVERFLOW: it ends
///               beyond the largest offset, 2^63 - 1. ENOLCK: the filesystem has no locks, or the kernel no memory. Others as
///               fcntl(2). EACCES counts as "held by another", for some network filesystems say it that way
/// Preconditions the handle is open, and outlives operation and guard
/// Buffers       none
/// Concurrency   any number of operations on a handle, of any number of threads
/// Cancellation  a lock that was obtained all the same is returned, and given back if nobody takes it
/// Cost          no allocation; see above
/// Runs as       F_OFD_SETLK, again after a while, on every driver: rings have no operation for it, and it takes no thread ·
///               blocking without a deadline F_OFD_SETLKW
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
