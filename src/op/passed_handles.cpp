// async_send_handles and async_receive_handles: descriptors that travel over Unix sockets.

#include "op/control_messages.hpp"
#include "op/datagram.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/passed_handles.hpp>

#include <algorithm>

namespace unio::inline v0_1 {

/// What only receiving changes.
struct detail::passed_access {
  static void add(passed_handles& to, int fd) noexcept { to.add(fd); }
  static void set_truncated(passed_handles& h) noexcept { h.truncated_ = true; }
};

detail::descriptors::descriptors(std::span<handle const* const> handles) noexcept {
  if (handles.size() > capacity) return;
  for (handle const* const h : handles)
    if (!h->is_open()) return;
  count = 0;
  for (handle const* const h : handles) fds[count++] = h->native_handle();
}

namespace {

bool is_stream(io_operation const& op) noexcept { return op.kind() == handle_kind::stream_socket; }

// The buffers: those of a datagram whole, or false. A stream may take less: what does not fit one call is
// left out.
template <std::size_t ControlBytes, class Buffers>
bool put(io_operation const& op, detail::message_memory<ControlBytes>& memory,
         Buffers const& buffers) noexcept {
  msghdr& m = op::new_header(memory);
  std::span<iovec> const own = op::own_vectors(memory);
  if (!is_stream(op)) return op::put_buffers(m, buffers, own);
  op::vectors const v(buffers);
  own[0] = v.one();
  m.msg_iov = v.is_single() ? own.data() : const_cast<iovec*>(v.data());
  m.msg_iovlen = static_cast<std::size_t>(v.count());
  return true;
}

// ---- sending ---------------------------------------------------------------------------------------------

using sending = async_send_handles;

// 0, or why it cannot be sent.
int fill_to_send(io_operation& op) noexcept {
  auto& memory = op::state<sending>(op);
  const_buffers const& bytes = op::as<sending>(op).bytes();
  detail::descriptors const& handles = op::as<sending>(op).handles();
  if (handles.count < 0 || (is_stream(op) && bytes.bytes() == 0)) return -EINVAL;
  if (!put(op, memory, bytes)) return -EINVAL;
  if (handles.count == 0) return 0;
  op::control_writer w(memory.control);
  w.put(SOL_SOCKET, SCM_RIGHTS, handles.fds, static_cast<std::size_t>(handles.count) * sizeof(int));
  msghdr& m = op::header_of(memory);
  m.msg_control = memory.control;
  m.msg_controllen = w.size();
  return 0;
}

bool prepare_send(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (fill_to_send(op) != 0) return false;
  sqe.opcode = IORING_OP_SENDMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(op::state<sending>(op)));
  sqe.len = 1;
  sqe.msg_flags = MSG_NOSIGNAL;
  return true;
}

int send(io_operation& op, attempt) noexcept {
  if (int const e = fill_to_send(op); e != 0) return e;
  return op::uninterrupted([&] {
    return sys::sendmsg(op.fd(), &op::header_of(op::state<sending>(op)), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

// ---- receiving -------------------------------------------------------------------------------------------

using receiving = async_receive_handles;

bool fill_to_receive(io_operation& op) noexcept {
  auto& memory = op::state<receiving>(op);
  if (!put(op, memory, op::as<receiving>(op).into())) return false;
  msghdr& m = op::header_of(memory);
  m.msg_iovlen = std::min(m.msg_iovlen, op::max_vectors);
  m.msg_control = memory.control;
  m.msg_controllen = sizeof(memory.control);
  return true;
}

bool prepare_receive(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  if (!fill_to_receive(op)) return false;
  sqe.opcode = IORING_OP_RECVMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(op::state<receiving>(op)));
  sqe.len = 1;
  sqe.msg_flags = MSG_CMSG_CLOEXEC;
  if (will_wait) sqe.ioprio = IORING_RECVSEND_POLL_FIRST; // saves a futile attempt
  return true;
}

int receive(io_operation& op, attempt) noexcept {
  if (!fill_to_receive(op)) return -EINVAL;
  auto& memory = op::state<receiving>(op);
  int const r = op::uninterrupted(
      [&] { return sys::recvmsg(op.fd(), &op::header_of(memory), MSG_CMSG_CLOEXEC | MSG_DONTWAIT); });
  if (r != -EAGAIN || is_stream(op) || !op::is_shut_down(op.fd())) return r;
  op::new_header(memory);
  return 0;
}

// Linux 6.5, SO_PASSPIDFD, which foreign code may have set: one descriptor more, unasked.
constexpr int scm_pidfd = 4;

outcome complete_receive(io_operation& op, int res, unsigned) noexcept {
  if (res >= 0) {
    msghdr const& m = op::header_of(op::state<receiving>(op));
    auto& [bytes, got, truncated] = op::value<receiving>(op);
    truncated = (m.msg_flags & MSG_TRUNC) != 0;
    bytes = op::as<receiving>(op).into().first(static_cast<std::size_t>(res));
    got = {};
    op::control_messages all(
        {static_cast<std::byte const*>(m.msg_control), std::min<std::size_t>(m.msg_controllen, 256)});
    for (op::control_message c; all.next(c);) {
      int fd = -1;
      if (c.is(SOL_SOCKET, scm_pidfd) && c.get(fd) && fd >= 0) sys::close(fd);
      if (!c.is(SOL_SOCKET, SCM_RIGHTS)) continue;
      for (; c.get(fd); c.data = c.data.subspan(sizeof(fd))) detail::passed_access::add(got, fd);
    }
    if ((m.msg_flags & MSG_CTRUNC) != 0) detail::passed_access::set_truncated(got);
  }
  return op::decode(op, res);
}

void reclaim(io_operation& op) noexcept { op::value<receiving>(op).handles = {}; }

} // namespace

constinit operation_faces const async_send_handles::table_ = {.name = "send_handles",
                                                              .flow = direction::out,
                                                              .prepare = prepare_send,
                                                              .wants = op::wants<readiness::writable>,
                                                              .perform = send,
                                                              .complete = op::decode,
                                                              .goes_with_others = op::always_with_others};

constinit operation_faces const async_receive_handles::table_ = {.name = "receive_handles",
                                                                 .prepare = prepare_receive,
                                                                 .wants = op::wants<readiness::readable>,
                                                                 .perform = receive,
                                                                 .complete = complete_receive,
                                                                 .reclaim = reclaim,
                                                                 .goes_with_others = op::always_with_others};

} // namespace unio
