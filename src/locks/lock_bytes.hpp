// src/locks/lock_bytes.hpp: the bytes of lock files: locks on them, waiting for those, reading and writing.
//
//   byte_lock   open-file-description locks on one byte or a range (fcntl_locking(2), F_OFD_SETLK)
//   pause       the next wait of a user that can only retry
//
// A lock belongs to an open description. It ends when the last descriptor of that is closed: when the process
// dies, unless a child shares it. So children of fork close what they inherit (sys::open_unshared), and all
// is close-on-exec. Descriptors from here are never given to a ring: locks were seen to outlive a killed
// process that way.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

namespace unio::inline v0_1::fs {

using unio::detail::native;
using unio::detail::to_error_code;
using unio::detail::to_native;

namespace byte_lock {

/// 0; -EAGAIN if another user holds it; another negative errno. An own lock on the same bytes is replaced,
/// atomically.
int try_lock(int fd, std::uint64_t at, lock_kind kind) noexcept;
/// Sleeps in the kernel. EINTR does not end it.
int lock(int fd, std::uint64_t at, lock_kind kind) noexcept;
/// Retries, but sleeps in the kernel if there is no deadline. -EAGAIN, -ETIMEDOUT.
int lock_until(int fd, std::uint64_t at, lock_kind kind, detail::waiting how) noexcept;
void unlock(int fd, std::uint64_t at) noexcept;
/// Releases all that this description holds.
void unlock_all(int fd) noexcept;

} // namespace byte_lock

/// Waits longer each time, 20 µs to 2 ms, and never past the deadline.
class pause {
 public:
  explicit pause(detail::waiting how) noexcept : how_(how) {}
  /// 0: try again; -EAGAIN: may not wait at all; -ETIMEDOUT: the deadline has passed.
  int next() noexcept;

 private:
  detail::waiting how_;
  std::int64_t length_ns_ = 20'000;
  unsigned spins_ = 0;
};

/// All of `n` bytes, or a negative native code: error::damaged_lock_file where the file ends too early,
/// ENOSPC for a short write.
int read_at(int fd, void* to, std::size_t n, std::uint64_t at) noexcept;
int write_at(int fd, void const* from, std::size_t n, std::uint64_t at) noexcept;

/// Allocates storage up to `to` bytes, so that writing them through a map never finds the filesystem full
/// (SIGBUS). If the filesystem cannot allocate: writes zeros, from `from` on.
int reserve(int fd, std::size_t from, std::size_t to) noexcept;
/// Whether the maker of this file died before it was finished: it is empty or all zeros; or, after a power
/// loss, has its final length, `whole`, and zeros in its first page. 1, 0, or a negative native code.
int is_unfinished(int fd, std::uint64_t size, std::size_t whole) noexcept;
bool is_zero(void const* data, std::size_t n) noexcept;
/// Writes the header of a lock file, to the disk: after a crash of the machine it must still be one. If that
/// fails and the file `was_empty`, it is empty again: a partial header would be a damaged one.
int write_header(int fd, void const* header, std::size_t n, bool was_empty) noexcept;
/// Compares the first 16 bytes of a file: 0: ours; error::different_lock_file: of another algorithm;
/// error::not_a_lock_file.
int check_magic(char const* found, char const* ours) noexcept;

} // namespace unio::fs
