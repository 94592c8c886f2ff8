// src/handle/file.hpp: the system calls of async_open, for src/op/open.cpp.

#pragma once

#include <unio/file_handle.hpp>

namespace unio {

/// The permissions of a new file, before the process's umask.
inline constexpr unsigned new_file_permissions = 0666;

/// Opens in place. Returns the descriptor (above 2), or a negative code.
int open_plain(async_open& op) noexcept;

/// creation::always_new: makes a new inode under a random name beside the wanted one and renames it into
/// place. Open descriptors of the old file stay valid; the name always leads to a file. Returns as
/// open_plain().
int open_always_new(async_open& op) noexcept;

/// The kind of what was opened with `flags`. A regular file loses O_NONBLOCK, which was only a precaution
/// against other kinds. Asks no server, so that a thread that runs a multiplexer may call it.
handle_kind take_in(int fd, int flags) noexcept;

} // namespace unio
