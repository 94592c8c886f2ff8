// src/op/stream.hpp: what reading a stream needs, into whatever memory.

#pragma once

#include "op/face.hpp"

#include <poll.h>
#include <sys/socket.h>

namespace unio::op {

/// read(2) or recv(2), which does not wait.
inline int read_stream(int fd, handle_kind kind, iovec into) noexcept {
  if (kind == handle_kind::stream_socket)
    return uninterrupted([&] { return sys::recv(fd, into.iov_base, into.iov_len, MSG_DONTWAIT); });
  return uninterrupted([&] { return sys::read(fd, into.iov_base, into.iov_len); });
}

/// Whether a read would not wait: for bytes, the end or an error.
inline bool is_readable(int fd) noexcept {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  timespec const now{};
  return sys::poll(&p, 1, &now) != 0;
}

/// A named pipe reads as ended before its first writer has come. poll(2) tells the difference: it reports a
/// hang-up only if there was a writer since the pipe was opened (fs/pipe.c, pipe_poll: w_counter).
inline bool awaits_first_writer(io_operation const& op) noexcept {
  return op.kind() == handle_kind::named_pipe && !is_readable(op.fd());
}

} // namespace unio::op
