// async_send_handles and async_receive_handles: descriptors that travel over Unix sockets.

#include "op/control_messages.hpp"
#include "op/datagram.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/passed_handles.hpp>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

using op::dgram;

async_send_handles& sending(io_operation& op) noexcept { return static_cast<async_send_handles&>(op); }
async_receive_handles& receiving(io_operation& op) noexcept {
  return static_cast<async_receive_handles&>(op);
}

bool is_stream(io_operation const& op) noexcept { return op.kind() == handle_kind::stream_socket; }

// ---- sending ---------------------------------------------------------------------------------------------

// 0, or why it cannot be sent.
int fill(async_send_handles& s) noexcept {
  int const count = dgram::count(s);
  if (count < 0) return -EINVAL;
  msghdr& m = op::new_header(dgram::memory(s));
  if (is_stream(s)) {
    // A stream may take less: what does not fit one call is left out.
    op::vectors const v(dgram::bytes(s));
    std::span<iovec> const own = op::own_vectors(dgram::memory(s));
    own[0] = v.one();
    m.msg_iov = v.is_single() ? own.data() : const_cast<iovec*>(v.data());
    m.msg_iovlen = static_cast<std::size_t>(v.count());
  } else if (!op::put_buffers(m, dgram::bytes(s), op::own_vectors(dgram::memory(s)))) {
    return -EINVAL;
  }
  if (count == 0) return 0;
  op::control_writer w(dgram::memory(s).control);
  w.put(SOL_SOCKET, SCM_RIGHTS, dgram::fds(s), static_cast<std::size_t>(count) * sizeof(int));
  m.msg_control = dgram::memory(s).control;
  m.msg_controllen = w.size();
  return 0;
}

bool prepare_send(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (fill(sending(op)) != 0) return false;
  sqe.opcode = IORING_OP_SENDMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(dgram::memory(sending(op))));
  sqe.len = 1;
  sqe.msg_flags = MSG_NOSIGNAL;
  return true;
}

readiness wants_to_send(io_operation const&) noexcept { return readiness::writable; }

int send(io_operation& op, attempt) noexcept {
  if (int const e = fill(sending(op)); e != 0) return e;
  return op::uninterrupted([&] {
    return sys::sendmsg(op.fd(), &op::header_of(dgram::memory(sending(op))), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

outcome complete_send(io_operation& op, int res, unsigned) noexcept { return op::decode(op, res); }

// ---- receiving -------------------------------------------------------------------------------------------

bool fill(async_receive_handles& r) noexcept {
  msghdr& m = op::new_header(dgram::memory(r));
  std::span<iovec> const own = op::own_vectors(dgram::memory(r));
  if (is_stream(r)) {
    op::vectors const v(dgram::into(r));
    own[0] = v.one();
    m.msg_iov = v.is_single() ? own.data() : const_cast<iovec*>(v.data());
    m.msg_iovlen = static_cast<std::size_t>(v.count());
  } else if (!op::put_buffers(m, dgram::into(r), own)) {
    return false;
  }
  m.msg_iovlen = std::min(m.msg_iovlen, op::max_vectors);
  m.msg_control = dgram::memory(r).control;
  m.msg_controllen = sizeof(dgram::memory(r).control);
  return true;
}

bool prepare_receive(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  if (!fill(receiving(op))) return false;
  sqe.opcode = IORING_OP_RECVMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(dgram::memory(receiving(op))));
  sqe.len = 1;
  sqe.msg_flags = MSG_CMSG_CLOEXEC;
  if (will_wait) sqe.ioprio = IORING_RECVSEND_POLL_FIRST; // saves a futile attempt
  return true;
}

readiness wants_to_receive(io_operation const&) noexcept { return readiness::readable; }

int receive(io_operation& op, attempt) noexcept {
  if (!fill(receiving(op))) return -EINVAL;
  return op::uninterrupted([&] {
    return sys::recvmsg(op.fd(), &op::header_of(dgram::memory(receiving(op))),
                        MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  });
}

// Linux 6.5, SO_PASSPIDFD, which foreign code may have set: one descriptor more, which nobody asked us for.
constexpr int scm_pidfd = 4;

outcome complete_receive(io_operation& op, int res, unsigned) noexcept {
  if (res >= 0) {
    msghdr const& m = op::header_of(dgram::memory(receiving(op)));
    passed_handles& got = dgram::got(receiving(op));
    got = {};
    op::control_messages all(
        {static_cast<std::byte const*>(m.msg_control), std::min<std::size_t>(m.msg_controllen, 256)});
    for (op::control_message c; all.next(c);) {
      int fd = -1;
      if (c.is(SOL_SOCKET, scm_pidfd) && c.get(fd) && fd >= 0) sys::close(fd);
      if (!c.is(SOL_SOCKET, SCM_RIGHTS)) continue;
      for (; c.get(fd); c.data = c.data.subspan(sizeof(fd))) dgram::add(got, fd);
    }
    if ((m.msg_flags & MSG_CTRUNC) != 0) dgram::set_truncated(got);
  }
  return op::decode(op, res);
}

void reclaim(io_operation& op) noexcept { dgram::got(receiving(op)) = {}; }

} // namespace

constinit operation_faces const detail::send_handles_faces = {.name = "send_handles",
                                                              .tries = inline_attempt::predicted,
                                                              .interruptible = true,
                                                              .flow = direction::out,
                                                              .prepare = prepare_send,
                                                              .wants = wants_to_send,
                                                              .perform = send,
                                                              .complete = complete_send,
                                                              .goes_with_others = op::always_with_others};

constinit operation_faces const detail::receive_handles_faces = {.name = "receive_handles",
                                                                 .tries = inline_attempt::predicted,
                                                                 .interruptible = true,
                                                                 .prepare = prepare_receive,
                                                                 .wants = wants_to_receive,
                                                                 .perform = receive,
                                                                 .complete = complete_receive,
                                                                 .reclaim = reclaim,
                                                                 .goes_with_others = op::always_with_others};

} // namespace unio
