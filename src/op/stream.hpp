// src/op/stream.hpp: what reading a stream needs, into whatever memory.

#pragma once

#include "op/face.hpp"
#include "sys/shared_streams.hpp"

#include <poll.h>
#include <sys/socket.h>

namespace unio::inline v0_1::op {

/// Whether a read would not wait: for bytes, the end or an error.
inline bool is_readable(int fd) noexcept {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  timespec const now{};
  return sys::poll(&p, 1, &now) != 0;
}

/// Whether others share it, so that each call on it could wait (unio/standard_streams.hpp).
inline bool blocks(int fd, handle_kind kind) noexcept {
  return kind == handle_kind::named_pipe && sys::is_shared_blocking(fd);
}

/// read(2) or recv(2), which does not wait.
inline int read_stream(int fd, handle_kind kind, iovec into) noexcept {
  if (kind == handle_kind::stream_socket)
    return uninterrupted([&] { return sys::recv(fd, into.iov_base, into.iov_len, MSG_DONTWAIT); });
  if (blocks(fd, kind) && !is_readable(fd)) return -EAGAIN;
  return uninterrupted([&] { return sys::read(fd, into.iov_base, into.iov_len); });
}

/// The same into several pieces of memory.
inline int read_stream(int fd, handle_kind kind, vectors const& into) noexcept {
  if (into.is_single()) return read_stream(fd, kind, into.one());
  if (kind == handle_kind::stream_socket) {
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(into.data());
    m.msg_iovlen = static_cast<std::size_t>(into.count());
    return uninterrupted([&] { return sys::recvmsg(fd, &m, MSG_DONTWAIT); });
  }
  if (blocks(fd, kind) && !is_readable(fd)) return -EAGAIN;
  return uninterrupted([&] { return sys::readv(fd, into.data(), into.count()); });
}

/// A named pipe reads as ended before its first writer has come. poll(2) tells the difference: it reports a
/// hang-up only if there was a writer since the pipe was opened (fs/pipe.c, pipe_poll: w_counter).
inline bool awaits_first_writer(io_operation const& op) noexcept {
  return op.kind() == handle_kind::named_pipe && !sys::is_shared_blocking(op.fd()) && !is_readable(op.fd());
}

} // namespace unio::op
