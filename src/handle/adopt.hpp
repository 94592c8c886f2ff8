// src/handle/adopt.hpp: making a descriptor from elsewhere one of unio's.

#pragma once

#include <unio/extend/operation_faces.hpp>
#include <unio/result.hpp>

#include <cstdint>

namespace unio::inline v0_1::detail {

/// Makes it close-on-exec and, unless it stays blocking, non-blocking, and moves it above 2. Returns the
/// descriptor and sets `status_flags` to its flags before (F_GETFL); or a negative code: then it is still the
/// caller's.
int take_over(int fd, bool stays_blocking, std::int64_t& status_flags) noexcept;

/// The same for a file, which stays blocking: its flags are noted.
int take_over_file(int fd) noexcept;

/// What a socket is: SOCK_STREAM, …; whether it listens. Errors: EBADF, ENOTSOCK.
struct socket_nature {
  int type;
  bool listens;
};
result<socket_nature> nature_of_socket(int fd) noexcept;

/// The same for a stream socket, or for one that listens, as `wanted` says. -ENOTSOCK: it is no socket;
/// -EPROTOTYPE: it exchanges messages, or it listens; -EINVAL: it does not listen.
int take_over_socket(int fd, handle_kind wanted) noexcept;

} // namespace unio::detail
