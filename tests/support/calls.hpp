// Replacing entries of the table of system calls for the length of a test.

#pragma once

#include "sys/calls.hpp"

#include <sys/uio.h>

#include <atomic>
#include <cstdint>

namespace test {

using unio::sys::table;

/// Puts a table in the place of the one that is used.
// A thread that has handed its result over may still be about to ring a doorbell, and looks at the table for
// it; either is right for that. ThreadSanitizer is not told.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) inline void put_table(
    unio::sys::table const* t) noexcept {
  unio::sys::answer_with(t);
}

/// A copy that stays until the process ends: a thread that rings a doorbell late still looks at it.
inline table& kept_table(table const& t) {
  struct kept {
    table one;
    kept* next;
  };
  static std::atomic<kept*> all{nullptr};
  auto* const made = new kept{t, all.load()};
  while (!all.compare_exchange_weak(made->next, made)) continue;
  return made->one;
}

/// While it lives, the table is a copy of the kernel's, of which the test may change entries.
class replaced_calls {
 public:
  replaced_calls() { put_table(&table_); }
  replaced_calls(replaced_calls const&) = delete;
  replaced_calls& operator=(replaced_calls const&) = delete;
  ~replaced_calls() { put_table(before_); }

  unio::sys::table* operator->() { return &table_; }

 private:
  unio::sys::table const* before_ = unio::sys::answering();
  unio::sys::table& table_ = kept_table(*before_);
};

/// While it lives, a read or a write of a file that may not wait (RWF_NOWAIT) does half of what it was asked
/// for, as where the page cache has no more.
class attempts_stop_half_way {
 public:
  attempts_stop_half_way() {
    count = 0;
    calls_->preadv2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
      return half(unio::sys::kernel.preadv2, fd, v, n, at, flags);
    };
    calls_->pwritev2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
      return half(unio::sys::kernel.pwritev2, fd, v, n, at, flags);
    };
  }
  static inline std::atomic<int> count = 0; ///< attempts

 private:
  template <class Call>
  static std::int64_t half(Call call, int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    if ((flags & RWF_NOWAIT) == 0) return call(fd, v, n, at, flags);
    ++count;
    iovec const first{v->iov_base, (v->iov_len + 1) / 2};
    return call(fd, &first, 1, at, 0);
  }
  replaced_calls calls_;
};

} // namespace test
