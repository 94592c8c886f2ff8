// src/handle/names.hpp: what files and named pipes share: their names, and how they are opened.

#pragma once

#include <unio/file_handle.hpp>

#include <cerrno>

namespace unio::detail {

inline constexpr std::size_t longest_path = 4095; // PATH_MAX without the terminating NUL
inline constexpr std::size_t longest_name = 255;  // NAME_MAX

/// A path on the stack, zero-terminated.
struct path_buffer {
  char text[longest_path + 1];
};

/// The directory argument of openat(2) and the like for a path_handle.
int directory_of(path_handle const& base) noexcept;

/// openat(2), close-on-exec, with a descriptor above 2. Returns it, or a negative code.
int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept;
/// fsync(2), where there is something to be made durable. Returns 0 or a negative code.
int make_durable(int fd) noexcept;

/// The length of the part of `path` that names its directory, with the last slash.
std::size_t directory_part(char const* path) noexcept;

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
