// src/sys/sigpipe.hpp: writing without a signal: to a pipe without readers (SIGPIPE), and to a file beyond
// the process's limit (SIGXFSZ, RLIMIT_FSIZE).
//
// Sockets have MSG_NOSIGNAL. For pipes Linux 6.18 introduced RWF_NOSIGNAL; before that, and for files, the
// calling thread has to block the signal during the call, and consume it if the call raised it. The process's
// dispositions and the thread's mask are the same afterwards.
//
// Most processes have no RLIMIT_FSIZE, and asking for it before each write would cost a system call. So the
// table of system calls asks at most once in a tick of the kernel's clock (1 to 10 ms): a limit that is set,
// by the program or by prlimit(1), after a file was written in that same tick may still raise the signal
// until the tick ends. A kernel thread that writes for a ring has all signals blocked; under a limit, writes
// that a ring would make in the caller's context go to such a thread.

#pragma once

#include <csignal>
#include <cstdint>

namespace unio::inline v0_1::sys {

/// Whether pwritev2(2) and the ring take RWF_NOSIGNAL for a pipe: probed once per process.
bool has_rwf_nosignal() noexcept;

/// Whether RLIMIT_FSIZE bounds the size of files: as of this tick of the kernel's clock, or of this moment.
bool file_size_is_limited() noexcept;
bool file_size_is_limited_now() noexcept;

/// unio::ignore_sigpipe: 0, or the negative errno.
int ignore_sigpipe() noexcept;

/// What a guarded call writes to.
enum class written : std::uint8_t { stream, file };

/// Keeps SIGPIPE and SIGXFSZ from the calling thread while it lives. Does nothing for a stream if the program
/// ignores SIGPIPE (unio::ignore_sigpipe).
class signal_guard {
 public:
  explicit signal_guard(written to) noexcept;
  signal_guard(signal_guard const&) = delete;
  signal_guard& operator=(signal_guard const&) = delete;
  ~signal_guard();
  /// Takes and returns the result of the guarded call; consumes the signal that it raised, if any.
  std::int64_t returned(std::int64_t r) noexcept;
  /// The same for a call made of several, of which one may have raised a signal after others had moved bytes:
  /// after a success that moved less than asked.
  void returned_short() noexcept;

 private:
  void take_back(int signal) noexcept;

  bool const is_needed_;
  sigset_t before_;
  sigset_t pending_; // before
};

/// A call that may make a file longer, in the calling thread.
template <class Call> std::int64_t without_signals(Call call) noexcept {
  signal_guard guard(written::file);
  return guard.returned(call());
}

} // namespace unio::sys
