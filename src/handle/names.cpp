#include "handle/names.hpp"

#include "sys/descriptors.hpp"

#include <fcntl.h>

#include <charconv>
#include <climits>
#include <cstring>

namespace unio {

static_assert(detail::longest_path == PATH_MAX - 1 && detail::longest_name == NAME_MAX);

int path_view::check() const noexcept {
  if (std::memchr(text_, 0, size_) != nullptr) return detail::native(error::embedded_nul);
  if (size_ > detail::longest_path) return -ENAMETOOLONG;
  std::size_t in_this_name = 0;
  for (char const* c = text_; *c != 0; ++c) {
    in_this_name = *c == '/' ? 0 : in_this_name + 1;
    if (in_this_name > detail::longest_name) return -ENAMETOOLONG;
  }
  return 0;
}

namespace detail {

int directory_of(path_handle const& base) noexcept {
  return base.is_open() ? base.native_handle() : AT_FDCWD;
}

int path_of(int fd, path_buffer& out) noexcept {
  if (fd < 0) return -EBADF;
  char link[32] = "/proc/self/fd/";
  std::size_t const prefix = std::strlen(link);
  *std::to_chars(link + prefix, link + sizeof(link) - 1, fd).ptr = 0;
  std::int64_t const n = sys::readlinkat(AT_FDCWD, link, out.text, sizeof(out.text));
  if (n < 0) return static_cast<int>(n);
  if (n > static_cast<std::int64_t>(longest_path)) return -ENAMETOOLONG; // readlink(2) truncates silently
  out.text[n] = 0;
  return static_cast<int>(n);
}

int append_random_name(path_buffer& out, std::size_t n) noexcept {
  std::uint64_t bits;
  constexpr std::size_t digits = 2 * sizeof(bits);
  if (n + digits > longest_path) return -ENAMETOOLONG;
  std::int64_t const r = sys::uninterrupted([&] { return sys::getrandom(&bits, sizeof(bits), 0); });
  if (r < 0) return static_cast<int>(r);
  for (std::size_t i = 0; i < digits; ++i) {
    out.text[n + i] = "0123456789abcdef"[bits & 15];
    bits >>= 4;
  }
  out.text[n + digits] = 0;
  return 0;
}

int begin_random_name(path_view prefix, path_buffer& out) noexcept {
  if (int const r = prefix.check(); r != 0) return r;
  if (std::memchr(prefix.c_str(), '/', prefix.size()) != nullptr) return -EINVAL;
  std::memcpy(out.text, prefix.c_str(), prefix.size()); // at most a name's length, as checked
  return static_cast<int>(prefix.size());
}

} // namespace detail
} // namespace unio
