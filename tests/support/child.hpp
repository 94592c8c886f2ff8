// Running a piece of a test in a process of its own, for what would spoil the others. It ends with 0, or says
// on standard error which line expected what, and ends with something else:
//
//   expect_in_child([&] {
//     CHILD_EXPECTS(::close(3) == 0);
//     return CHILD_MEETS(h.kind() == handle_kind::signal);
//   });

#pragma once

#include "support/test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <source_location>

namespace test {

/// Runs `body`, which returns 0 if all is well, in a forked child. Returns what that returned, or -1 if the
/// child was killed.
template <class Body> int in_child(Body body) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Expects 0 of it.
template <class Body>
void expect_in_child(Body body, std::source_location at = std::source_location::current()) {
  if (int const status = in_child(std::move(body)); status != 0)
    ADD_FAILURE_AT(at.file_name(), static_cast<int>(at.line())) << "the child ended with " << status;
}

/// Says what a child expected in vain. No stream: another thread of the parent may have held its lock.
[[gnu::cold]] inline int unmet(char const* expected, char const* file, int line) {
  ::dprintf(STDERR_FILENO, "%s:%d: a child expected: %s (errno: %s)\n", file, line, expected,
            std::strerror(errno));
  return 1;
}

} // namespace test

/// 0 if it holds; otherwise 1, having said so.
#define CHILD_MEETS(...) ((__VA_ARGS__) ? 0 : ::test::unmet(#__VA_ARGS__, __FILE__, __LINE__))

/// Returns that from the function it stands in, unless it holds.
#define CHILD_EXPECTS(...)                       \
  do {                                           \
    if (CHILD_MEETS(__VA_ARGS__) != 0) return 1; \
  } while (false)
