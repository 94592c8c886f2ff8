#include "sys/sigpipe.hpp"

#include "sys/calls.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/passing.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <atomic>
#include <ctime>

namespace unio::inline v0_1::sys {
namespace {

constinit std::atomic<bool> sigpipe_is_ignored = false; // relaxed: it guards nothing

// 1, or why it is not taken, or could not be tried.
std::int64_t probe() noexcept {
  int fds[2];
  if (std::int64_t const e = past_tests::pipe(fds, O_CLOEXEC | O_NONBLOCK); e < 0) return e;
  char byte = 0;
  iovec const v{&byte, 1};
  std::int64_t const r = past_tests::pwritev2(fds[1], &v, 1, -1, rwf_nosignal);
  past_tests::close(fds[0]);
  past_tests::close(fds[1]);
  return r;
}

sigset_t only(int signal) noexcept {
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, signal);
  return s;
}

} // namespace

bool has_rwf_nosignal() noexcept {
  static std::atomic<int> known{-1}; // relaxed: every thread that probes gets the same answer
  if (int const k = known.load(std::memory_order_relaxed); k >= 0) [[likely]]
    return k != 0;
  std::int64_t const r = probe();
  if (!may_pass(r)) known.store(r == 1 ? 1 : 0, std::memory_order_relaxed);
  return r == 1;
}

bool file_size_is_limited_now() noexcept {
  rlimit l;
  return ::getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY;
}

bool file_size_is_limited() noexcept {
  // Twice the tick, and 1 if there was a limit. Relaxed: one word says all.
  static std::atomic<std::int64_t> known{-1};
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t); // no system call, and a few nanoseconds
  std::int64_t const tick = std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  std::int64_t k = known.load(std::memory_order_relaxed);
  if (k >> 1 != tick) [[unlikely]]
    known.store(k = tick * 2 + (file_size_is_limited_now() ? 1 : 0), std::memory_order_relaxed);
  return (k & 1) != 0;
}

signal_guard::signal_guard(written to) noexcept
    : is_needed_(to == written::file || !sigpipe_is_ignored.load(std::memory_order_relaxed)) {
  if (!is_needed_) return;
  sigset_t both = only(SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &both, &before_);
  sigemptyset(&pending_);
  // A signal that is not blocked cannot be pending.
  if (sigismember(&before_, SIGPIPE) == 1 || sigismember(&before_, SIGXFSZ) == 1) sigpending(&pending_);
}

std::int64_t signal_guard::returned(std::int64_t r) noexcept {
  if (!is_needed_) return r;
  if (r == -EPIPE) take_back(SIGPIPE);
  if (r == -EFBIG) take_back(SIGXFSZ);
  return r;
}

void signal_guard::returned_short() noexcept {
  if (!is_needed_) return;
  sigset_t raised;
  sigpending(&raised);
  for (int const signal : {SIGPIPE, SIGXFSZ})
    if (sigismember(&raised, signal) == 1) take_back(signal);
}

// A signal that was pending before is the program's.
void signal_guard::take_back(int signal) noexcept {
  if (sigismember(&pending_, signal) == 1) return;
  sigset_t const s = only(signal);
  timespec const now{};
  sigtimedwait(&s, nullptr, &now);
}

signal_guard::~signal_guard() {
  if (!is_needed_) return;
  if (sigismember(&before_, SIGPIPE) != 1 || sigismember(&before_, SIGXFSZ) != 1)
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int ignore_sigpipe() noexcept {
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) return -errno;
  sigpipe_is_ignored.store(true, std::memory_order_relaxed);
  return 0;
}

} // namespace unio::sys
