#include "locks/lock_bytes.hpp"

#include "sys/descriptors.hpp"
#include "sys/ofd_lock.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace unio::inline v0_1::fs {

namespace byte_lock {

int try_lock(int fd, std::uint64_t at, lock_kind kind) noexcept {
  return sys::ofd_lock(fd, at, 1, kind == lock_kind::exclusive, false);
}

int lock(int fd, std::uint64_t at, lock_kind kind) noexcept {
  return sys::ofd_lock(fd, at, 1, kind == lock_kind::exclusive, true);
}

int lock_until(int fd, std::uint64_t at, lock_kind kind, detail::waiting how) noexcept {
  bool const sleeps = how.due_ns == deadline::forever && !how.spin;
  pause wait(how);
  for (;;) {
    int const e = try_lock(fd, at, kind);
    if (e != -EAGAIN) return e;
    if (sleeps) return lock(fd, at, kind);
    if (int const stop = wait.next(); stop != 0) return stop;
  }
}

void unlock(int fd, std::uint64_t at) noexcept { (void)sys::ofd_unlock(fd, at, 1); }

void unlock_all(int fd) noexcept { (void)sys::ofd_unlock(fd, 0, sys::to_the_end); }

} // namespace byte_lock

int pause::next() noexcept {
  if (how_.never()) return -EAGAIN;
  if (how_.spin) {
    // Reading the clock costs as much as many attempts in memory, and little compared with one in the kernel.
    if (how_.due_ns != deadline::forever && sys::steady_now() >= how_.due_ns) return -ETIMEDOUT;
    if (++spins_ % 64 == 0) sys::sched_yield(); // the holder may need this processor
    return 0;
  }
  std::int64_t length = length_ns_;
  if (how_.due_ns != deadline::forever) {
    std::int64_t const left = how_.due_ns - sys::steady_now();
    if (left <= 0) return -ETIMEDOUT;
    length = std::min(length, left);
  }
  timespec const t{.tv_sec = 0, .tv_nsec = length};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr); // a signal ends it early: retried
  length_ns_ = std::min<std::int64_t>(length_ns_ * 2, 2'000'000);
  return 0;
}

int read_at(int fd, void* to, std::size_t n, std::uint64_t at) noexcept {
  iovec const v{.iov_base = to, .iov_len = n};
  auto const r =
      sys::uninterrupted([&] { return sys::preadv2(fd, &v, 1, static_cast<std::int64_t>(at), 0); });
  if (r < 0) return static_cast<int>(r);
  return static_cast<std::size_t>(r) == n ? 0 : native(error::damaged_lock_file);
}

int write_at(int fd, void const* from, std::size_t n, std::uint64_t at) noexcept {
  iovec const v{.iov_base = const_cast<void*>(from), .iov_len = n};
  auto const r =
      sys::uninterrupted([&] { return sys::pwritev2(fd, &v, 1, static_cast<std::int64_t>(at), 0); });
  if (r < 0) return static_cast<int>(r);
  return static_cast<std::size_t>(r) == n ? 0 : -ENOSPC;
}

int reserve(int fd, std::size_t from, std::size_t to) noexcept {
  auto const r = sys::uninterrupted([&] { return sys::fallocate(fd, 0, 0, static_cast<std::int64_t>(to)); });
  if (r != -EOPNOTSUPP && r != -ENOSYS) return static_cast<int>(r);
  static constexpr char zeros[4096] = {};
  for (std::size_t n; from < to; from += n) {
    n = std::min(sizeof zeros, to - from);
    if (int const e = write_at(fd, zeros, n, from); e != 0) return e;
  }
  return 0;
}

int is_unfinished(int fd, std::uint64_t size, std::size_t whole) noexcept {
  char bytes[4096]; // as long as a first page
  std::uint64_t at = 0;
  while (at < size && !(at != 0 && size == whole)) {
    std::size_t const n = std::min<std::uint64_t>(sizeof bytes, size - at);
    if (int const e = read_at(fd, bytes, n, at); e != 0) return e;
    if (!is_zero(bytes, n)) return 0;
    at += n;
  }
  return 1;
}

bool is_zero(void const* data, std::size_t n) noexcept {
  auto const* const bytes = static_cast<char const*>(data);
  return std::all_of(bytes, bytes + n, [](char c) { return c == 0; });
}

int write_header(int fd, void const* header, std::size_t n, bool was_empty) noexcept {
  int const e = write_at(fd, header, n, 0);
  if (e != 0 && was_empty) (void)sys::ftruncate(fd, 0);
  if (e != 0) return e;
  auto const r = sys::uninterrupted([&] { return sys::fdatasync(fd); });
  return r == -EINVAL ? 0 : static_cast<int>(r);
}

int check_magic(char const* found, char const* ours) noexcept {
  constexpr std::size_t all = 16;
  constexpr std::size_t family = 5; // "unio "
  if (std::memcmp(found, ours, all) == 0) return 0;
  bool const is_unios = std::memcmp(found, ours, family) == 0;
  return native(is_unios ? error::different_lock_file : error::not_a_lock_file);
}

} // namespace unio::fs
