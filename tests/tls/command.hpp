// Another program, with what it is told and what it says.

#pragma once

#include "support/posix.hpp"
#include "support/test.hpp"

#include <spawn.h>

#include <condition_variable>

extern char** environ;

namespace test {

class command {
 public:
  /// Found in PATH.
  explicit command(std::vector<std::string> words) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    is_there_ = ::posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    reader_ = std::thread([this, from = out[0]] { collect(from); });
  }
  command(command const&) = delete;
  command& operator=(command const&) = delete;
  ~command() {
    if (is_there_ && !has_ended_) ::kill(process_, SIGKILL);
    (void)wait();
  }

  [[nodiscard]] bool is_there() const { return is_there_; }
  void say(std::string_view text) const {
    EXPECT_EQ(::write(in_, text.data(), text.size()), ssize_t(text.size()));
  }
  void say_no_more() {
    if (in_ >= 0) ::close(in_);
    in_ = -1;
  }
  /// What follows `what` in its line, as soon as it has been said.
  std::string line_after(std::string_view what) {
    std::unique_lock lock(mutex_);
    std::size_t at = 0, end = 0;
    more_.wait(lock, [&] {
      at = output_.find(what);
      end = at == output_.npos ? at : output_.find('\n', at);
      return end != output_.npos || over_;
    });
    if (end == output_.npos) return {};
    return output_.substr(at + what.size(), end - at - what.size());
  }
  /// Its exit status; -1 if it was killed.
  int wait() {
    say_no_more();
    if (reader_.joinable()) reader_.join();
    if (is_there_ && !has_ended_) {
      has_ended_ = true;
      int status = 0;
      ::waitpid(process_, &status, 0);
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return status_;
  }
  [[nodiscard]] std::string output() {
    std::scoped_lock const lock(mutex_);
    return output_;
  }

 private:
  void collect(int from) {
    char room[4096];
    for (ssize_t n; (n = ::read(from, room, sizeof room)) > 0;) {
      std::scoped_lock const lock(mutex_);
      output_.append(room, static_cast<std::size_t>(n));
      more_.notify_all();
    }
    ::close(from);
    std::scoped_lock const lock(mutex_);
    over_ = true;
    more_.notify_all();
  }

  pid_t process_ = -1;
  bool is_there_ = false;
  bool has_ended_ = false;
  int status_ = -1;
  int in_ = -1;
  std::mutex mutex_;
  std::condition_variable more_;
  std::string output_;
  bool over_ = false;
  std::thread reader_;
};

} // namespace test
