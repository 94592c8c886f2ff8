// src/handle/file.hpp: the system calls of async_open, for src/op/open.cpp.

#pragma once

#include <unio/file_handle.hpp>

namespace unio {

/// The permissions that a new file is created with, before the process's umask takes some away.
inline constexpr unsigned new_file_permissions = 0666;

/// Opens in place. Returns the descriptor (above 2), or a negative code.
int open_plain(async_open& op) noexcept;

/// creation::always_new: makes a new inode under a random name beside the wanted one and renames it into its
/// place. Whoever has the old one open keeps it; nobody sees the name without a file. As open_plain() about
/// what is returned.
int open_always_new(async_open& op) noexcept;

/// What was opened with `flags`. A regular file loses O_NONBLOCK, which was only for the case that the name
/// led to something else. Asks no server, so that a thread that runs a multiplexer may do it.
handle_kind take_in(int fd, int flags) noexcept;

} // namespace unio
