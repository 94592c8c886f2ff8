// Processes of a harness: they end with it, and no test waits for them for ever.

#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace crash {

inline std::int64_t now_ms() noexcept {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}
inline void sleep_us(long us) noexcept {
  timespec const t{.tv_sec = us / 1'000'000, .tv_nsec = us % 1'000'000 * 1000};
  ::nanosleep(&t, nullptr);
}
/// Until `f()` is true: true, or not within `ms`: false.
template <class F> bool await(F&& f, std::int64_t ms) noexcept {
  std::int64_t const due = now_ms() + ms;
  for (long pause = 50; !f(); pause = pause < 1000 ? pause * 2 : 1000) {
    if (now_ms() >= due) return f();
    sleep_us(pause);
  }
  return true;
}

/// A forked child that runs `body()`; killed if it is there still at the end.
class child {
 public:
  child() = default;
  template <class Body> explicit child(Body&& body) {
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    ::_exit(0);
  }
  child(child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  child& operator=(child&& other) noexcept {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
    return *this;
  }
  ~child() { kill(); }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Has it ended?
  bool is_over() noexcept {
    if (pid_ <= 0) return true;
    if (::waitpid(pid_, &status_, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }
  /// Has it stopped itself, or ended?
  bool is_stopped_or_over() noexcept {
    if (pid_ <= 0 || stopped_) return true;
    if (::waitpid(pid_, &status_, WNOHANG | WUNTRACED) != pid_) return false;
    if (WIFSTOPPED(status_)) {
      stopped_ = true;
    } else {
      pid_ = -1;
    }
    return true;
  }
  [[nodiscard]] bool is_stopped() const noexcept { return stopped_; }
  void go_on() noexcept {
    stopped_ = false;
    ::kill(pid_, SIGCONT);
  }
  bool ends_within(std::int64_t ms) noexcept {
    return await([this] { return is_over(); }, ms);
  }
  /// After its end.
  [[nodiscard]] bool was_killed() const noexcept {
    return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL;
  }
  [[nodiscard]] bool ended_well() const noexcept { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  [[nodiscard]] int status() const noexcept { return status_; }
  void kill() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool stopped_ = false;
};

} // namespace crash
