// src/sys/unwaiting.hpp: reading and writing a file without waiting for its device (RWF_NOWAIT).
//
//   read_some_unwaiting, write_some_unwaiting    what there is, in the page cache
//   read_unwaiting, write_unwaiting              all that a call that may wait would move, or nothing
//
// The kernel stops where the page cache does and reports what it has moved (mm/filemap.c, filemap_read), as
// it does at the end of the file. So a read that fell short is whole only if nothing follows. If something
// does, a call that may wait makes the read again from its beginning. A descriptor that has no offset, or
// appends, cannot repeat a call, so nothing is begun there.

#pragma once

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace unio::inline v0_1::sys {

// Each returns bytes or a negative errno; -EAGAIN: only a call that may wait can tell. procfs, for one,
// cannot say whether it would wait, and a descriptor that bypasses the page cache always waits.

inline std::int64_t read_some_unwaiting(int fd, iovec const* v, int n, std::int64_t at) noexcept {
  if (is_direct(fd)) return -EAGAIN;
  std::int64_t const r = uninterrupted([&] { return sys::preadv2(fd, v, n, at, RWF_NOWAIT); });
  return r == -EOPNOTSUPP ? -EAGAIN : r;
}
inline std::int64_t write_some_unwaiting(int fd, iovec const* v, int n, std::int64_t at) noexcept {
  if (is_direct(fd)) return -EAGAIN;
  std::int64_t const r = uninterrupted([&] { return sys::pwritev2(fd, v, n, at, RWF_NOWAIT); });
  return r == -EOPNOTSUPP ? -EAGAIN : r;
}

/// Whether `bytes` are as many as one call on `v` moves at most.
inline bool is_all_of(iovec const* v, int n, std::int64_t bytes) noexcept {
  constexpr std::uint64_t most = 0x7fff'f000; // MAX_RW_COUNT
  std::uint64_t all = 0;
  for (int i = 0; i != n && all < most; ++i) all += std::min<std::uint64_t>(v[i].iov_len, most);
  return static_cast<std::uint64_t>(bytes) >= std::min(all, most);
}

/// What read_unwaiting() makes of what read_some_unwaiting() has returned.
inline std::int64_t read_or_nothing(int fd, iovec const* v, int n, std::int64_t at, std::int64_t r) noexcept {
  if (r <= 0 || is_all_of(v, n, r)) return r;
  char next = 0;
  iovec const one{.iov_base = &next, .iov_len = 1};
  return read_some_unwaiting(fd, &one, 1, at + r) == 0 ? r : -EAGAIN;
}
inline std::int64_t read_unwaiting(int fd, iovec const* v, int n, std::int64_t at) noexcept {
  return at < 0 ? -EAGAIN : read_or_nothing(fd, v, n, at, read_some_unwaiting(fd, v, n, at));
}
inline std::int64_t write_unwaiting(int fd, iovec const* v, int n, std::int64_t at) noexcept {
  if (at < 0 || is_appending(fd)) return -EAGAIN;
  std::int64_t const r = write_some_unwaiting(fd, v, n, at);
  return r <= 0 || is_all_of(v, n, r) ? r : -EAGAIN;
}

} // namespace unio::sys
