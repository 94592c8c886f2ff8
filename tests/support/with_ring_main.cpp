// with_ring: runs a command where io_uring can be had.
//
//   with_ring COMMAND...
//
// Exit status: the command's; 2 wrong usage · 77, as ctest skips a test, there is no io_uring, with the
// reason · 126 the command could not be run.

#include <unio/multiplexer.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: with_ring COMMAND...\n", stderr);
    return 2;
  }
  ::setenv("UNIO_DRIVER", "uring", 1);
  if (auto const made = unio::io_multiplexer::best_available(1); !made.has_value()) {
    std::printf("no io_uring: %s\n", made.error().message().c_str());
    return 77;
  }
  ::execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 126;
}
