// async_send_zero_copy: sending pages without copying them; two completions, one for the bytes, one for the
// pages.

#include "op/access.hpp"
#include "op/face.hpp"

#include <sys/socket.h>

namespace unio {
namespace {

static_assert(sys::op_send_zero_copy == IORING_OP_SEND_ZC);

async_send_zero_copy const& self(io_operation const& op) noexcept {
  return static_cast<async_send_zero_copy const&>(op);
}

const_buffer first_buffer(io_operation const& op) noexcept {
  for (const_buffer const b : self(op).request().buffers)
    if (!b.empty()) return b;
  return {};
}

void begin(io_operation& op) noexcept { op::access::copies(op) = false; }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  const_buffer const b = first_buffer(op);
  if (b.empty() || op::access::copies(op)) return false;
  sqe.opcode = IORING_OP_SEND_ZC;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(b.data());
  sqe.len = static_cast<std::uint32_t>(std::min(b.size(), op::max_bytes));
  sqe.msg_flags = MSG_NOSIGNAL;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return first_buffer(op).empty() ? readiness::nothing : readiness::writable;
}

int perform(io_operation& op, attempt) noexcept {
  const_buffer const b = first_buffer(op);
  if (b.empty()) return 0;
  return op::uninterrupted(
      [&] { return sys::send(op.fd(), b.data(), b.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
}

outcome complete(io_operation& op, int res, unsigned flags) noexcept {
  bool const notified = (flags & IORING_CQE_F_NOTIF) != 0;
  bool const more = (flags & IORING_CQE_F_MORE) != 0; // a notification follows, even after some errors
  if (notified) return op::access::copies(op) ? outcome::again : outcome::released;
  if (res == -EOPNOTSUPP && !op::access::copies(op)) { // a Unix socket, say
    op::access::copies(op) = true;
    return more ? outcome::pending : outcome::again;
  }
  outcome const o = op::decode(op, res);
  if (o == outcome::again && more) {
    op::access::copies(op) = true;
    return outcome::pending;
  }
  return o == outcome::finished && more ? outcome::holding : o;
}

} // namespace

constinit operation_faces const detail::send_zero_copy_faces = {.name = "send_zero_copy",
                                                                .tries = inline_attempt::never,
                                                                .flow = direction::out,
                                                                .begin = begin,
                                                                .prepare = prepare,
                                                                .wants = wants,
                                                                .perform = perform,
                                                                .complete = complete,
                                                                .lends_buffers = true};

} // namespace unio
