// src/op/face.hpp: what the operations' files share: the tail of every decoder, buffers as the kernel takes
// them, and what reading a stream needs.

#pragma once

#include "handle/opened.hpp"
#include "sys/descriptors.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/shared_streams.hpp"

#include <unio/buffer.hpp>
#include <unio/operation.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>

namespace unio::inline v0_1 {
using driver::attempt;
using driver::direction;
using driver::inline_attempt;
using driver::operation_faces;
using driver::outcome;
} // namespace unio

namespace unio::inline v0_1::op {

/// sys::uninterrupted, as the result of perform(): no caller sees EINTR, and no call moves more than an int
/// can say.
template <class Call> int uninterrupted(Call call) noexcept {
  return static_cast<int>(sys::uninterrupted(call));
}

/// wants() of an operation that always waits for the same.
template <readiness What> readiness wants(io_operation const&) noexcept { return What; }

/// object() of an operation on what one descriptor has open: how that is open, if it explains the failure.
template <detail::file_use Use> bool opening(io_operation const& op, detail::failed_object& to) noexcept {
  return detail::put_opening(to, op.fd(), op.outcome_value(), Use);
}

/// For goes_with_others: a send rarely has to wait, and a peer that was just answered has rarely sent its
/// next request.
inline bool is_socket(io_operation const& op) noexcept { return op.kind() == handle_kind::stream_socket; }

/// The tail of a decoder, after bytes and the operation's own errors: a stop, "not yet", an error.
inline outcome decode_error(io_operation& op, int res) noexcept {
  if (res == -EAGAIN) return outcome::again;
  if (res == -EINTR && !op.links.is.cancel_wanted) return outcome::again;
  bool const stopped = res == -ECANCELED || res == -EINTR;
  op.set_outcome(stopped ? op.canceled_code() : res);
  return outcome::finished;
}

/// A value, or an error.
inline outcome decode(io_operation& op, int res, unsigned = 0) noexcept {
  if (res < 0) return decode_error(op, res);
  op.set_outcome(res);
  return outcome::finished;
}

/// The same of one whose outcome says nothing.
inline outcome decode_done(io_operation& op, int res, unsigned) noexcept {
  return decode(op, res < 0 ? res : 0);
}

/// reclaim() of one whose outcome is a descriptor that is the caller's once result() has taken it.
inline void close_outcome(io_operation& op) noexcept {
  if (op.outcome_value() <= 0) return;
  sys::bump_generation(op.outcome_value()); // clears what was noted of it
  sys::close(op.outcome_value());
  op.set_outcome(-EBADF);
}

inline constexpr std::size_t max_bytes = 0x7ffff000; // MAX_RW_COUNT: the most that one call moves
inline constexpr std::size_t max_vectors = 1024;     // UIO_MAXIOV

/// A list of buffers for readv(2), with room for at least one byte if the list has any, because a transfer of
/// nothing reads as the end of the stream. Moving less than asked is always allowed, so buffers beyond one
/// call's limit are left out, and so is the last buffer of a list that was cut short inside it: the caller's
/// array is never changed. One piece of memory is held by value, and uses the simpler system calls.
class vectors {
 public:
  template <class Buffer> explicit vectors(buffer_list<Buffer> const& list) noexcept {
    static_assert(sizeof(Buffer) == sizeof(iovec));
    std::size_t first = 0;
    std::size_t end = list.size();
    if (end > 1) {
      while (first + 1 < end && list.array()[first].empty()) ++first;
      bool const cut = list[end - 1].size() != list.array()[end - 1].size();
      if (cut && end - first > 1) --end;
      many_ = reinterpret_cast<iovec const*>(list.array() + first);
      count_ = std::min(end - first, max_vectors);
    }
    Buffer const front = list[first];
    one_ = {const_cast<std::byte*>(front.data()), front.size()};
  }
  [[nodiscard]] bool is_single() const noexcept { return count_ == 1; }
  /// The first piece of memory, which is the only one if is_single().
  [[nodiscard]] iovec const& one() const noexcept { return one_; }
  [[nodiscard]] iovec const* data() const noexcept { return count_ == 1 ? &one_ : many_; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(count_); }

 private:
  iovec const* many_ = nullptr;
  std::size_t count_ = 1;
  iovec one_;
};

// ---- reading a stream, into whatever memory ---------------------------------------------------------------

/// What poll(2) says now, or a negative code.
inline int ready_for(int fd, short events) noexcept {
  pollfd p{.fd = fd, .events = events, .revents = 0};
  timespec const now{};
  auto const r = static_cast<int>(sys::poll(&p, 1, &now));
  return r > 0 ? p.revents : r;
}
inline bool is_there(int fd, short event) noexcept {
  int const is = ready_for(fd, event);
  return is > 0 && (is & event) != 0;
}

/// Whether a read would not wait: for bytes, the end or an error.
inline bool is_readable(int fd) noexcept { return ready_for(fd, POLLIN) != 0; }
/// Whether a write would not wait: for room, at least some, or an error.
inline bool is_writable(int fd) noexcept { return ready_for(fd, POLLOUT) != 0; }

/// Of what is no stream, where an attempt has found nothing: whether its own receiving side was shut down.
/// Only a call that may wait says so; poll(2) has it readable for ever. It is asked once a driver was told of
/// an end, which goes by what it waits with.
inline bool is_shut_down(int fd) noexcept {
  return sys::last_waited(fd, sys::shut_down_bit) && is_there(fd, POLLRDHUP);
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

/// Notes whether a call on a socket that asked for `size` bytes has got fewer. Returns what it has returned.
inline int note_short(io_operation& op, int r, std::size_t size) noexcept {
  op.set_fell_short(r > 0 && static_cast<std::size_t>(r) < std::min(size, max_bytes) && is_socket(op));
  return r;
}

/// A named pipe reads as ended before its first writer has come. poll(2) tells the difference: it reports a
/// hang-up only if there was a writer since the pipe was opened (fs/pipe.c, pipe_poll: w_counter).
inline bool awaits_first_writer(io_operation const& op) noexcept {
  return op.kind() == handle_kind::named_pipe && !sys::is_shared_blocking(op.fd()) && !is_readable(op.fd());
}

} // namespace unio::op
