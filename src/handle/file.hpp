// src/handle/file.hpp: what opening a file (src/op/open.cpp) and the rest of a file handle have in common.

#pragma once

#include <cstddef>

namespace unio::detail {

/// openat(2), close-on-exec, with a descriptor above 2. Returns it, or a negative code.
int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept;
/// fsync(2), where there is something to be made durable. Returns 0 or a negative code.
int make_durable(int fd) noexcept;
/// The length of the part of `path` that names its directory, with the last slash.
std::size_t directory_part(char const* path) noexcept;

} // namespace unio::detail
