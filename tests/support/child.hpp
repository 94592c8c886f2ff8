// Running a piece of a test in a process of its own, for what would spoil the others.

#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace test {

/// Runs `body`, which returns 0 or what it failed at, in a forked child. Returns that, or -1 if the child was
/// killed.
template <class Body> int in_child(Body body) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace test
