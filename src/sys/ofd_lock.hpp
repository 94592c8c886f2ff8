// src/sys/ofd_lock.hpp: open-file-description locks (fcntl_locking(2)): their only user.
//
//   ofd_lock        takes, converts or releases a lock on a range of bytes
//   ofd_is_locked   tests without taking
//   open_unshared   opens what such locks are held on: closed in children of fork
//
// A lock belongs to the open description. Two ranges of one description merge, and releasing one takes bytes
// from the other. It ends with the last descriptor of the description, which a child of fork may have.

#pragma once

#include <unio/config.hpp>

#include <cstdint>

namespace unio::inline v0_1::sys {

inline constexpr std::uint64_t to_the_end = 0; // as a number of bytes: the whole file from there on

/// 0, or a negative errno: -EAGAIN where another holds some of it and `sleeps` is false. A lock of this
/// description on the same bytes is converted, atomically. A signal does not interrupt it.
UNIO_API int ofd_lock(int fd, std::uint64_t at, std::uint64_t bytes, bool exclusive, bool sleeps) noexcept;
UNIO_API int ofd_unlock(int fd, std::uint64_t at, std::uint64_t bytes) noexcept;
/// Would an exclusive lock of this description on the bytes have to wait? 1, 0, or a negative errno. POSIX
/// locks of this process count as others' do.
UNIO_API int ofd_is_locked(int fd, std::uint64_t at, std::uint64_t bytes = 1) noexcept;

/// openat(2), close-on-exec, above 2. The descriptor is closed in children of fork, until close_unshared(). A
/// negative errno.
UNIO_API int open_unshared(int directory, char const* name, int flags, unsigned mode) noexcept;
UNIO_API void close_unshared(int fd) noexcept;

} // namespace unio::sys
