// A process beside a subject: a writer, an echo. It does not outlive the run that made it.
#pragma once

#include "support/placement.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>

namespace benchmarks {

class helper_process {
 public:
  /// Forks. The child does `work` on the helpers' processor, until it is killed or `work` returns.
  /// Preconditions  this process has one thread
  template <class F> explicit helper_process(F work) {
    pid_t const parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error(std::string("no process for a helper: ") + std::strerror(errno));
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) { // it may have ended before that was asked for
      move_helper_away();
      work();
    }
    ::_exit(0); // nothing of the parent's is flushed or destroyed
  }
  ~helper_process() {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  helper_process(helper_process const&) = delete;
  helper_process& operator=(helper_process const&) = delete;

 private:
  pid_t pid_ = -1;
};

} // namespace benchmarks
