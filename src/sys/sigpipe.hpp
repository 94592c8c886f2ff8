// src/sys/sigpipe.hpp: writing to a pipe that nobody reads, without a signal.
//
// Sockets have MSG_NOSIGNAL. For pipes Linux 6.18 brought RWF_NOSIGNAL; before that the signal has to be blocked in the
// calling thread for the length of the call, and taken back if the call raised it. The process's dispositions and the
// thread's mask are as before afterwards.

#pragma once

#include <csignal>

namespace unio::sys {

/// Whether pwritev2(2) and the ring take RWF_NOSIGNAL for a pipe: tried once per process.
bool has_rwf_nosignal() noexcept;

/// Keeps SIGPIPE from the calling thread while it lives.
class sigpipe_guard {
 public:
  sigpipe_guard() noexcept;
  sigpipe_guard(sigpipe_guard const&) = delete;
  sigpipe_guard& operator=(sigpipe_guard const&) = delete;
  ~sigpipe_guard();
  /// The guarded call failed with EPIPE: takes back the signal that it raised.
  void raised() noexcept { raised_ = true; }

 private:
  sigset_t before_;
  bool was_blocked_ = false;
  bool was_pending_ = false;
  bool raised_ = false;
};

} // namespace unio::sys
