// process_posix: posix_spawn(3), fork(2) and vfork(2), each with waitpid(2).

#include "memory.hpp"
#include "support/measure.hpp"
#include "vfork.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

extern char** environ;

namespace {

using namespace benchmarks;

constexpr char program[] = "/bin/true";
char* const arguments[] = {const_cast<char*>(program), nullptr};

int wait_for(pid_t child) {
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child ? status : -1;
}

int spawned() {
  pid_t child = 0;
  if (::posix_spawn(&child, program, nullptr, nullptr, arguments, environ) != 0) return -1;
  return wait_for(child);
}

int forked() {
  pid_t const child = ::fork();
  if (child == 0) {
    ::execve(program, arguments, environ);
    ::_exit(127);
  }
  return wait_for(child);
}

// With what launching is expected to do: no signal blocked or ignored.
int spawned_with_signals() {
  posix_spawnattr_t a;
  ::posix_spawnattr_init(&a);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&a, &none);
  ::posix_spawnattr_setsigdefault(&a, &all);
  ::posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  int const failed = ::posix_spawn(&child, program, nullptr, &a, arguments, environ);
  ::posix_spawnattr_destroy(&a);
  return failed != 0 ? -1 : wait_for(child);
}

template <class F> sample repeated(F run_one, std::string const& memory, std::uint64_t n) {
  std::vector<char> const own = touched(memory);
  return measure(n, [&] {
    for (std::uint64_t i = 0; i < n; ++i)
      if (run_one() != 0) throw std::runtime_error("a child failed");
  });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  const auto add = [&](char const* subject, auto run_one) {
    for (std::string const memory : memory_sizes)
      cases.push_back(
          {subject, {{"memory", memory}}, [=](std::uint64_t n) { return repeated(run_one, memory, n); }});
  };
  add("posix_spawn", spawned);
  add("posix_spawn, signals reset", spawned_with_signals);
  add("vfork, C", [] { return run_by_vfork(program); });
  add("fork", forked);
  return subject_main(argc, argv, cases);
}
