#include "tools/support/system_calls.hpp"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>

namespace tools {
namespace {

constexpr int syscall_stop = SIGTRAP | 0x80; // with PTRACE_O_TRACESYSGOOD

[[noreturn]] void be_traced(std::function<bool()> const& work) {
  bool done = false;
  ::alarm(2); // ends the child if the work hangs
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) {
    ::raise(SIGSTOP); // until the parent is ready
    try {
      done = work();
    } catch (std::exception const&) {
      done = false;
    }
  }
  ::_exit(done ? 0 : 1); // nothing of the parent's is flushed or destroyed
}

pid_t wait_for(pid_t which, int& status) noexcept {
  pid_t who;
  do who = ::waitpid(which, &status, __WALL);
  while (who < 0 && errno == EINTR);
  return who;
}

class counter {
 public:
  // At a system call's beginning or end.
  void look(pid_t thread) noexcept {
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    if (info.entry.nr == SYS_getppid) {
      ++marks_;
    } else if (marks_ == 1) {
      ++calls_;
    }
  }
  [[nodiscard]] std::optional<std::uint64_t> result() const noexcept {
    return marks_ == 2 ? std::optional(calls_) : std::nullopt;
  }

 private:
  std::uint64_t calls_ = 0;
  int marks_ = 0;
};

// The signal to continue the thread with: the one that stopped it, unless that was the tracing itself.
long signal_to_pass(int status) noexcept {
  int const signal = WSTOPSIG(status);
  bool const is_ours = signal == syscall_stop || signal == SIGTRAP || signal == SIGSTOP;
  return is_ours ? 0 : signal;
}

std::optional<std::uint64_t> follow(pid_t child) noexcept {
  int status = 0;
  if (wait_for(child, status) != child || !WIFSTOPPED(status)) return {};
  long const options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  if (::ptrace(PTRACE_SETOPTIONS, child, nullptr, options) != 0) {
    ::kill(child, SIGKILL);
    (void)wait_for(child, status);
    return {};
  }
  counter counted;
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  for (;;) {
    pid_t const who = wait_for(-1, status); // this program has no other children
    if (who < 0) return {};
    if (WIFSTOPPED(status)) {
      if (WSTOPSIG(status) == syscall_stop) counted.look(who);
      ::ptrace(PTRACE_SYSCALL, who, nullptr, signal_to_pass(status));
    } else if (who == child) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? counted.result() : std::nullopt;
    }
  }
}

} // namespace

void mark_system_calls() noexcept { (void)::syscall(SYS_getppid); }

std::optional<std::uint64_t> system_calls_of(std::function<bool()> const& work) {
  std::fflush(nullptr);
  pid_t const child = ::fork();
  if (child < 0) return {};
  if (child == 0) be_traced(work);
  return follow(child);
}

} // namespace tools
