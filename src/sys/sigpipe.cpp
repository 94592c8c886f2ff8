#include "sys/sigpipe.hpp"

#include "sys/calls.hpp"
#include "sys/kernel_abi.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <atomic>
#include <ctime>

namespace unio::sys {
namespace {

bool probe() noexcept {
  int fds[2];
  if (kernel.pipe(fds, O_CLOEXEC | O_NONBLOCK) < 0) return false;
  char byte = 0;
  iovec const v{&byte, 1};
  bool const taken = kernel.pwritev2(fds[1], &v, 1, -1, rwf_nosignal) == 1;
  kernel.close(fds[0]);
  kernel.close(fds[1]);
  return taken;
}

sigset_t only_sigpipe() noexcept {
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGPIPE);
  return s;
}

} // namespace

bool has_rwf_nosignal() noexcept {
  static std::atomic<int> known{-1}; // relaxed: every thread that probes finds the same
  int k = known.load(std::memory_order_relaxed);
  if (k < 0) known.store(k = probe() ? 1 : 0, std::memory_order_relaxed);
  return k != 0;
}

sigpipe_guard::sigpipe_guard() noexcept {
  sigset_t const s = only_sigpipe();
  pthread_sigmask(SIG_BLOCK, &s, &before_);
  was_blocked_ = sigismember(&before_, SIGPIPE) == 1;
  if (!was_blocked_) return; // one that was pending would have been delivered
  sigset_t pending;
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
}

sigpipe_guard::~sigpipe_guard() {
  if (raised_ && !was_pending_) {
    sigset_t const s = only_sigpipe();
    timespec const now{};
    sigtimedwait(&s, nullptr, &now);
  }
  if (!was_blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

} // namespace unio::sys
