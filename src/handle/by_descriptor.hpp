// src/handle/by_descriptor.hpp: naming what a descriptor leads to by the descriptor.

#pragma once

#include "handle/names.hpp"

namespace unio::inline v0_1::detail {

/// Writes the name of the descriptor, "/proc/self/fd/N", with a NUL. Returns its length.
std::size_t put_name_of(int fd, path_buffer& out) noexcept;

/// Opens what `fd` leads to anew: a description of its own, with its own flags and position. Returns a
/// close-on-exec descriptor above 2, or a negative code: EACCES where this process may not open it, though it
/// has it open.
int reopen(int fd, int flags) noexcept;

} // namespace unio::detail
