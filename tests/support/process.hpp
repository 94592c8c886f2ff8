// Other processes, for what has to happen between them: they run a piece of the test, tell when they are so
// far, and are killed.

#pragma once

#include "support/child.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <utility>

namespace test {

/// A forked child, with a channel to it. It lives for a minute at most, and not longer than the test.
class process {
 public:
  class channel {
   public:
    explicit channel(int fd) noexcept : fd_(fd) {}
    void say(char c) const noexcept { (void)!::send(fd_, &c, 1, MSG_NOSIGNAL); }
    void say_number(long n) const noexcept { (void)!::send(fd_, &n, sizeof n, MSG_NOSIGNAL); }
    /// What the other side said; '\0' when it has ended.
    char hear() const noexcept {
      char c = '\0';
      return ::recv(fd_, &c, 1, MSG_WAITALL) == 1 ? c : '\0';
    }
    long hear_number() const noexcept {
      long n = 0;
      return ::recv(fd_, &n, sizeof n, MSG_WAITALL) == sizeof n ? n : 0;
    }

   private:
    int fd_;
  };

  /// Runs `body(channel&)`, which returns the exit status.
  template <class Body> explicit process(Body body) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::alarm(60);
      channel with(ends[1]);
      int const status = [&]() noexcept {
        return body(with);
      }(); // what it throws ends it: the tests that follow are the parent's
      ::_exit(status);
    }
    ::close(ends[1]);
    fd_ = ends[0];
  }
  process(process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)) {}
  process& operator=(process&&) = delete;
  ~process() {
    kill();
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] pid_t id() const noexcept { return pid_; }
  void say(char c) const noexcept { channel(fd_).say(c); }
  char hear() const noexcept { return channel(fd_).hear(); }
  long hear_number() const noexcept { return channel(fd_).hear_number(); }

  /// Its exit status, or -1 if a signal ended it.
  int wait() noexcept {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(std::exchange(pid_, -1), &status, 0) <= 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// SIGKILL, and waits for its end.
  void kill() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  /// SIGSTOP, and waits until it has stopped.
  void stop() const noexcept {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void go_on() const noexcept { ::kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

} // namespace test
