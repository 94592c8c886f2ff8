// src/handle/names.hpp: what files and named pipes share about their names.

#pragma once

#include <unio/file_handle.hpp>

#include <cerrno>
#include <cstddef>

namespace unio::detail {

inline constexpr std::size_t longest_path = 4095; // PATH_MAX without the terminating NUL
inline constexpr std::size_t longest_name = 255;  // NAME_MAX

/// A path on the stack, zero-terminated.
struct path_buffer {
  char text[longest_path + 1];
};

/// The directory argument of openat(2) and the like for a path_handle.
int directory_of(path_handle const& base) noexcept;

/// The current path of `fd`. Returns the length, or a negative code.
int path_of(int fd, path_buffer& out) noexcept;

/// Writes 64 random bits in hexadecimal, and a NUL, behind the first `n` bytes of `out`. Returns 0 or a
/// negative code: ENAMETOOLONG if there is no room.
int append_random_name(path_buffer& out, std::size_t n) noexcept;

/// Copies the prefix of a random name, which must not lead to another directory. Returns its length or a
/// negative code.
int begin_random_name(path_view prefix, path_buffer& out) noexcept;

/// Calls `create(char const*)` with random names that begin with the first `n` bytes of `out` until one is
/// free. Returns the last result of `create`; the name is in `out`.
template <class Create> int with_random_name(path_buffer& out, std::size_t n, Create create) noexcept {
  for (;;) {
    if (int const r = append_random_name(out, n); r < 0) return r;
    // A collision of 64 random bits is practically impossible. A bound would only hide a broken generator.
    if (int const r = create(out.text); r != -EEXIST) return r;
  }
}

} // namespace unio::detail
