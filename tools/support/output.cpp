#include "tools/support/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tools {
namespace {

int why_lost = 0; // the first reason, once something could not be printed

} // namespace

void open_what_is_standard() noexcept {
  for (int fd = 0; fd != 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

void print(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && why_lost == 0) why_lost = errno;
}

int finish_output(char const* command) noexcept {
  bool is_lost = std::ferror(stdout) != 0;
  errno = 0;
  is_lost = std::fflush(stdout) != 0 || is_lost;
  is_lost = ::close(STDOUT_FILENO) != 0 || is_lost;
  if (!is_lost) return 0;
  if (why_lost == 0) why_lost = errno;
  char const* const why = why_lost != 0 ? std::strerror(why_lost) : "a part of it could not be written";
  (void)std::fprintf(stderr, "%s: standard output: %s\n", command, why);
  return 1;
}

} // namespace tools
