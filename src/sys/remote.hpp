// src/sys/remote.hpp: whether a file's filesystem is one that others write to: other machines, or a program.

#pragma once

#include <unio/config.hpp>

namespace unio::inline v0_1::sys {

/// 1: others may change it without this kernel's locks, caches and inotify(7) knowing; 0: not; or -errno.
UNIO_API int lies_remote(int fd) noexcept;

} // namespace unio::sys
