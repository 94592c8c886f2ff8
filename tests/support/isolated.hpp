// A test in a process of its own, for what would spoil others or be spoiled by them: signals, limits,
// descriptors, seccomp filters, the driver.
//
//   class kernel_close : public test::isolated {};
//   UNIO_ON_EACH_DRIVER(kernel_close);
//   ISOLATED_TEST(kernel_close, ends_a_read) { … test::made_multiplexer() … }
//   DRIVER_TEST(kernel_close, ends_a_read) { … m … }     with a multiplexer, in which nothing stays in flight
//
// The test program runs itself again for that one test, with UNIO_DRIVER set. A watchdog ends what hangs;
// what is open afterwards must be what was open before.

#pragma once

#include "driver/choose.hpp"
#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <dirent.h>
#include <linux/io_uring.h>
#include <spawn.h>

extern char** environ;

namespace test {

inline constexpr int watchdog_seconds = 120;

/// The descriptors that this process has open, each with what it leads to.
inline std::set<std::string> open_descriptors() {
  std::set<std::string> found;
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return found;
  while (dirent const* const entry = ::readdir(directory)) {
    std::string const name = entry->d_name;
    if (name[0] == '.' || std::atoi(name.c_str()) == ::dirfd(directory)) continue;
    char target[256] = {};
    if (::readlinkat(::dirfd(directory), name.c_str(), target, sizeof target - 1) < 0) continue;
    found.insert(name + " " + target);
  }
  ::closedir(directory);
  return found;
}

/// Whether the kernel lets this process set a ring up.
inline bool ring_is_allowed() {
  io_uring_params p{};
  long const fd = ::syscall(SYS_io_uring_setup, 2, &p);
  if (fd < 0) return false;
  ::close(static_cast<int>(fd));
  return true;
}

/// The drivers to test: the one that the environment names; otherwise both, or, where io_uring is forbidden,
/// what a program gets that does not name one.
inline std::vector<std::string> drivers() {
  if (char const* const named = std::getenv("UNIO_DRIVER"); named != nullptr) return {named};
  if (unio::driver::has_uring() && ring_is_allowed()) return {"uring", "epoll"};
  return {"fallback"};
}

inline constexpr char isolation_mark[] = "UNIO_TEST_ISOLATED";
inline bool is_isolated() { return std::getenv(isolation_mark) != nullptr; }

/// The end of a program that was run: its exit status, or -1 when it was killed or took too long; and what it
/// printed.
struct program_end {
  int status = -1;
  std::string output;
};

/// Runs a program to its end. `changes`: NAME=value sets a variable, NAME alone takes it out of the
/// environment. `inherits`: descriptors above 2 that are not close-on-exec stay open in it.
inline program_end run_program(std::vector<std::string> arguments,
                               std::vector<std::string> const& changes = {}, bool inherits = true) {
  std::vector<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) {
    std::string_view const variable = *v;
    bool kept = true;
    for (std::string const& change : changes) {
      std::string_view const name = std::string_view(change).substr(0, change.find('='));
      if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) kept = false;
    }
    if (kept) variables.emplace_back(variable);
  }
  for (std::string const& change : changes)
    if (change.find('=') != std::string::npos) variables.push_back(change);
  auto pointers = [](std::vector<std::string>& strings) {
    std::vector<char*> all;
    for (std::string& s : strings) all.push_back(s.data());
    all.push_back(nullptr);
    return all;
  };
  std::vector<char*> const argv = pointers(arguments);
  std::vector<char*> const envp = pointers(variables);

  program_end end;
  int const output = ::memfd_create("output", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, output, 2);
  if (!inherits) ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t pipe_signal, none;
  sigemptyset(&none);
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  pid_t child = -1;
  int const failed = ::posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    ::close(output);
    end.output = std::string(argv[0]) + ": " + std::strerror(failed);
    return end;
  }

  pollfd ended{.fd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), .events = POLLIN, .revents = 0};
  bool const in_time = ::poll(&ended, 1, watchdog_seconds * 1000) == 1;
  ::kill(-child, SIGKILL); // also what it has left behind; its own status is fixed if it has ended
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(ended.fd);
  if (in_time && WIFEXITED(status)) end.status = WEXITSTATUS(status);

  char piece[4096];
  ::lseek(output, 0, SEEK_SET);
  for (ssize_t n; (n = ::read(output, piece, sizeof piece)) > 0;)
    end.output.append(piece, static_cast<std::size_t>(n));
  ::close(output);
  if (!in_time) end.output += "\nstopped by the watchdog";
  if (in_time && WIFSIGNALED(status)) end.output += std::string("\nkilled: ") + ::strsignal(WTERMSIG(status));
  return end;
}

inline std::string own_path() {
  char path[4096] = {};
  return ::readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "";
}

/// The changes to the environment under which a test runs alone.
inline std::vector<std::string> isolation(std::string const& driver) {
  return {std::string(isolation_mark) + "=1", driver == "fallback" ? "UNIO_DRIVER" : "UNIO_DRIVER=" + driver,
          "GTEST_OUTPUT", "GTEST_FILTER"};
}

/// The running test's name, as --gtest_filter takes it.
inline std::string own_name() {
  ::testing::TestInfo const& t = *::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(t.test_suite_name()) + "." + t.name();
}

/// Runs the running test again, alone.
inline void run_alone(std::string const& driver) {
  program_end const end = run_program({own_path(), "--gtest_filter=" + own_name()}, isolation(driver), false);
  if (end.status != 0) {
    ADD_FAILURE() << "in a process of its own, with the driver " << driver << ":\n" << end.output;
  } else if (std::size_t const at = end.output.find("Skipped\n"); at != std::string::npos) {
    std::string const reason = end.output.substr(at + 8);
    GTEST_SKIP() << reason.substr(0, reason.find('\n'));
  }
}

class isolated : public ::testing::TestWithParam<std::string> {
 public:
  [[nodiscard]] static std::string driver() { return GetParam(); }
  [[nodiscard]] static bool is_ring() { return driver() == "uring"; }
};

struct driver_name {
  std::string operator()(::testing::TestParamInfo<std::string> const& tested) const { return tested.param; }
};

/// A multiplexer of the driver that is being tested. `ring_entries` != 0: with so small a ring.
inline std::unique_ptr<unio::io_multiplexer> made_multiplexer(int ring_entries = 0) {
  std::optional<environment_variable> changed; // only where it must: another thread may be reading it
  if (ring_entries != 0) changed.emplace("UNIO_RING_ENTRIES", std::to_string(ring_entries).c_str());
  auto made = unio::io_multiplexer::best_available(1);
  if (!made.has_value()) {
    ADD_FAILURE() << "no multiplexer: " << made.error().message();
    ::_exit(1);
  }
  return std::move(*made);
}

inline void expect_nothing_in_flight(unio::io_multiplexer const& m) {
  EXPECT_EQ(m.counters().started, m.counters().finished);
}

} // namespace test

#define UNIO_ON_EACH_DRIVER(suite) \
  INSTANTIATE_TEST_SUITE_P(on, suite, ::testing::ValuesIn(::test::drivers()), ::test::driver_name())

#define ISOLATED_TEST(suite, name)                                                           \
  class suite##_##name##_alone : public suite {                                              \
   public:                                                                                   \
    static void run();                                                                       \
  };                                                                                         \
  TEST_P(suite, name) {                                                                      \
    if (!::test::is_isolated()) return ::test::run_alone(driver());                          \
    auto const open_before = ::test::open_descriptors();                                     \
    suite##_##name##_alone::run();                                                           \
    EXPECT_EQ(::test::open_descriptors(), open_before) << "a descriptor was leaked or lost"; \
  }                                                                                          \
  void suite##_##name##_alone::run()

#define DRIVER_TEST(suite, name)                    \
  class suite##_##name##_on_driver : public suite { \
   public:                                          \
    static void run(unio::io_multiplexer& m);       \
  };                                                \
  ISOLATED_TEST(suite, name) {                      \
    auto const made = ::test::made_multiplexer();   \
    suite##_##name##_on_driver::run(*made);         \
    ::test::expect_nothing_in_flight(*made);        \
  }                                                 \
  void suite##_##name##_on_driver::run([[maybe_unused]] unio::io_multiplexer& m)
