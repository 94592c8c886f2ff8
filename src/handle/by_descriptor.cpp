#include "handle/by_descriptor.hpp"

#include <fcntl.h>

#include <charconv>
#include <cstring>

namespace unio::inline v0_1::detail {

std::size_t put_name_of(int fd, path_buffer& out) noexcept {
  constexpr char prefix[] = "/proc/self/fd/";
  constexpr std::size_t n = sizeof prefix - 1;
  std::memcpy(out.text, prefix, n);
  char* const end = std::to_chars(out.text + n, out.text + n + 11, fd).ptr;
  *end = '\0';
  return static_cast<std::size_t>(end - out.text);
}

int reopen(int fd, int flags) noexcept {
  path_buffer name;
  put_name_of(fd, name);
  return open_at(AT_FDCWD, name.text, flags | O_NOCTTY, 0);
}

} // namespace unio::detail
