#include "handle/opened.hpp"

#include "handle/names.hpp"
#include "sys/calls.hpp"

#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

namespace unio::inline v0_1::detail {
namespace {

bool includes(file_use use, file_use part) noexcept {
  return (static_cast<unsigned>(use) & static_cast<unsigned>(part)) == static_cast<unsigned>(part);
}

// Null: as it has to be for such a use, as far as can be seen.
char const* what_is_wrong(std::int64_t flags, std::int64_t code, file_use use) noexcept {
  std::int64_t const access = flags & O_ACCMODE;
  bool const appends = (flags & O_APPEND) != 0;
  if ((flags & O_PATH) != 0) return " (open without access)";
  if (code == -EINVAL && (flags & O_DIRECT) != 0) return " (open for direct I/O)";
  if (includes(use, file_use::writing) && access == O_RDONLY) return " (open for reading only)";
  if (includes(use, file_use::reading) && access == O_WRONLY)
    return appends ? " (open for appending only)" : " (open for writing only)";
  if (includes(use, file_use::placing) && appends) return " (open for appending)";
  return nullptr;
}

} // namespace

bool put_opening(failed_object& to, int fd, std::int64_t native_code, file_use use) noexcept {
  bool const may_be_why =
      native_code == -EBADF || native_code == -EINVAL || native_code == -EACCES || native_code == -EOPNOTSUPP;
  if (!may_be_why || fd < 0) return false;
  std::int64_t const flags = sys::fcntl(fd, F_GETFL, 0);
  if (flags < 0) return false; // it is no descriptor
  char const* const wrong = what_is_wrong(flags, native_code, use);
  if (wrong == nullptr) return false;
  path_buffer path;
  int const n = path_of(fd, path);
  if (n > 0 && path.text[0] == '/') {
    to.append(path.text, static_cast<std::size_t>(n), failed_object::capacity - std::strlen(wrong));
  } else {
    char digits[12];
    to.append("descriptor ");
    to.append(digits, static_cast<std::size_t>(std::to_chars(digits, std::end(digits), fd).ptr - digits));
  }
  to.append(wrong);
  return true;
}

failure failed_as_open(std::int64_t native_code, char const* operation, int fd, file_use use) noexcept {
  failed_object o;
  return put_opening(o, fd, native_code, use) ? failed(native_code, operation, o)
                                              : failed(native_code, operation, fd);
}

} // namespace unio::detail
