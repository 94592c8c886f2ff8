// unio lock: a command that runs while its names are locked.
//
// The command is a child and has none of the lock's descriptors. This process blocks signals from the moment
// it has the lock, so that nothing but SIGKILL ends it before the command has ended; it passes on the signals
// it gets.

#include "lock.hpp"

#include "checks.hpp"
#include "complain.hpp"
#include "numbers.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>
#include <unio/unio.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace lock {
namespace {

using unio::fs::shared_fs_mutex;

constexpr int wrong_usage = 2;
constexpr int timed_out = 124; // the next four are those of timeout(1) and env(1)
constexpr int failed = 125;
constexpr int cannot_be_executed = 126;
constexpr int not_found = 127;

// For --timeout 0, which is about the names. Other processes open the file, too, which takes a few system
// calls.
constexpr unio::deadline time_to_open = std::chrono::seconds(1);

// 1.5, 500ms, 2s, 0
std::optional<unio::deadline> parsed(std::string const& text) {
  auto const m = measure_of(text);
  if (!m || (m->unit != "" && m->unit != "s" && m->unit != "ms")) return {};
  double const seconds = m->unit == "ms" ? m->number / 1000 : m->number;
  if (!(seconds < 1e9)) return {};
  if (seconds == 0) return unio::deadline::zero();
  return unio::deadline(
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

struct algorithm {
  std::string_view name;
  unio::result<std::unique_ptr<shared_fs_mutex>> (*open)(std::string const& path, unio::deadline d);
};

template <class Mutex>
unio::result<std::unique_ptr<shared_fs_mutex>> opened(std::string const& path, unio::deadline d) {
  unio::result<Mutex> m = [&] {
    if constexpr (std::same_as<Mutex, unio::fs::lock_files>) {
      return Mutex::open(path); // never waits
    } else {
      return Mutex::open(path, d);
    }
  }();
  if (!m) return m.error();
  return std::make_unique<Mutex>(std::move(*m));
}

constexpr algorithm algorithms[] = {{"lock_files", opened<unio::fs::lock_files>},
                                    {"byte_ranges", opened<unio::fs::byte_ranges>},
                                    {"atomic_append", opened<unio::fs::atomic_append>},
                                    {"memory_map", opened<unio::fs::memory_map<>>}};

// EPERM does not say that the reason is the file's owner.
std::string why_not_opened(std::string const& path, std::error_code error) {
  struct stat s;
  bool const is_anothers = error == std::errc::operation_not_permitted && ::lstat(path.c_str(), &s) == 0 &&
                           s.st_uid != ::geteuid();
  return is_anothers ? "belongs to another user" : error.message();
}

// ── the command ────────────────────────────────────────────────────────────────────────────────────────────

/// Blocks the signals that would end this process; the command gets the previous mask.
class blocked_signals {
 public:
  blocked_signals() {
    ::sigfillset(&set_);
    for (int const s : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT}) ::sigdelset(&set_, s); // these do not end it
    ::signal(SIGCHLD, SIG_DFL); // if ignored, the command's status would be lost
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  [[nodiscard]] sigset_t const& before() const noexcept { return before_; }
  [[nodiscard]] siginfo_t next() const noexcept {
    siginfo_t info{};
    while (::sigwaitinfo(&set_, &info) < 0) {
    }
    return info;
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

// The command's process, or a negative errno.
pid_t start(std::vector<std::string> const& command, sigset_t const& mask) {
  std::vector<char*> arguments;
  for (std::string const& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  int const e = ::posix_spawnp(&child, arguments.front(), nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return e != 0 ? -e : child;
}

// The meaning of an error of starting the command. The process may not have been created at all.
int status_of(int error) noexcept {
  if (error == ENOENT) return not_found;
  return error == EAGAIN || error == ENOMEM ? failed : cannot_be_executed;
}

int run_command(std::vector<std::string> const& command) {
  blocked_signals const signals;
  pid_t const child = start(command, signals.before());
  if (child < 0) return say(status_of(-child), command.front(), std::strerror(-child));
  for (;;) {
    int status = 0;
    pid_t const ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0) return say(failed, command.front(), std::strerror(errno));
    if (ended == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    siginfo_t const info = signals.next();
    // Signals of the terminal reach the command as well: it is in the same group.
    if (info.si_signo != SIGCHLD && info.si_code != SI_KERNEL) ::kill(child, info.si_signo);
  }
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.footer(
      "Behind it all: -- COMMAND…, what to run.\n\n"
      "Exit status: COMMAND's, or 128 + the signal that ended it; 124 if the time was over before; 125 if "
      "locking failed;\n"
      "126 if COMMAND cannot be executed; 127 if it was not found; 2 for wrong usage. With --status 0, or 1 "
      "if it failed.");
  app.add_option("path", o.path,
                 "The lock file, which is made if it is not there; for lock_files a directory")
      ->type_name("PATH")
      ->required();
  app.add_flag("--shared", o.shared, "Share the names with others that share them");
  app.add_option("--timeout", o.timeout,
                 "How long to wait: 1.5, 500ms, 2s; 0: not at all. By default for ever")
      ->type_name("D");
  std::vector<std::string> names;
  for (algorithm const& a : algorithms) names.emplace_back(a.name);
  app.add_option("--algorithm", o.algorithm,
                 "lock_files, byte_ranges (the default), atomic_append or memory_map")
      ->type_name("NAME")
      ->check(one_of(std::move(names)));
  app.add_option("--entity", o.entities, "A name to lock; may be given several times. All or none are locked")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--status", o.status, "Show who holds what, and change nothing");
}

namespace {

int run_locked(options const& o) {
  std::optional<unio::deadline> const d = o.timeout ? parsed(*o.timeout) : unio::deadline();
  if (!d)
    return say(wrong_usage, "--timeout",
               fmt::format("\"{}\" is no time; 1.5, 500ms, 2s and 0 are", escaped(*o.timeout)));

  unio::result<std::unique_ptr<shared_fs_mutex>> mutex = std::error_code();
  for (algorithm const& a : algorithms)
    if (a.name == o.algorithm) mutex = a.open(o.path, d->is_zero() ? time_to_open : *d);
  if (!mutex && o.timeout && mutex.error() == unio::condition::timed_out)
    return say(timed_out, o.path, "somebody else is still opening it");
  if (!mutex) return say(failed, o.path, why_not_opened(o.path, mutex.error()));
  std::vector<unio::fs::entity> entities;
  for (std::string const& name : o.entities) entities.push_back(unio::fs::entity_of(name, !o.shared));
  if (entities.empty()) entities.push_back(unio::fs::entity_of(default_entity, !o.shared));

  auto const held = (*mutex)->lock(entities, *d);
  if (!held) {
    if (held.error() == unio::condition::would_block) return say(timed_out, o.path, "held by others");
    if (o.timeout && held.error() == unio::condition::timed_out)
      return say(timed_out, o.path, "still held by others after " + *o.timeout);
    return say(failed, o.path, held.error().code().message());
  }
  if (held->owner_died()) say(0, o.path, "who held it before died; what it protects may be half changed");
  return run_command(o.command);
}

} // namespace

int run(options const& o) {
  if (o.status) {
    if (o.command.empty()) return show_status(o);
    return say(wrong_usage, "lock", "--status takes no command");
  }
  if (o.command.empty()) return say(wrong_usage, "lock", "no command given: lock PATH -- COMMAND…");
  try {
    return run_locked(o);
  } catch (std::exception const& e) {
    return say(failed, o.path, e.what());
  }
}

} // namespace lock
