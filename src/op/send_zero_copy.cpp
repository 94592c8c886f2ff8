// async_send_zero_copy: sending pages without copying them; two completions, one for the bytes, one for the
// pages.

#include "op/declared.hpp"
#include "op/face.hpp"
#include "op/registered.hpp"

#include <unio/socket_handle.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <new>

namespace unio::inline v0_1 {
namespace {

static_assert(sys::op_send_zero_copy == IORING_OP_SEND_ZC);
static_assert(sys::op_sendmsg_zero_copy == IORING_OP_SENDMSG_ZC);
static_assert(sizeof(detail::zero_copy_state::message) == sizeof(msghdr) && alignof(msghdr) <= 8);

const_buffers const& buffers_of(io_operation const& op) noexcept {
  return op::as<async_send_zero_copy>(op).request().buffers;
}
bool& copies(io_operation& op) noexcept { return op::state<async_send_zero_copy>(op).copies; }
bool is_empty(io_operation const& op) noexcept { return buffers_of(op).bytes() == 0; }

void begin(io_operation& op) noexcept { copies(op) = false; }

// Of several buffers. It lies in the operation, because a kernel may look at it when the entry is performed.
msghdr& message_of(io_operation& op, op::vectors const& v) noexcept {
  auto& m = *new (op::state<async_send_zero_copy>(op).message) msghdr{};
  m.msg_iov = const_cast<iovec*>(v.data()); // the caller's array: v is not single
  m.msg_iovlen = static_cast<std::size_t>(v.count());
  return m;
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (is_empty(op) || copies(op)) return false;
  sqe.fd = op.fd();
  sqe.msg_flags = MSG_NOSIGNAL;
  op::vectors const v(buffers_of(op));
  if (v.is_single()) {
    sqe.opcode = IORING_OP_SEND_ZC;
    sqe.addr = reinterpret_cast<std::uintptr_t>(v.one().iov_base);
    sqe.len = static_cast<std::uint32_t>(std::min(v.one().iov_len, op::max_bytes));
    return true;
  }
  sqe.opcode = IORING_OP_SENDMSG_ZC;
  sqe.addr = reinterpret_cast<std::uintptr_t>(&message_of(op, v));
  sqe.len = 1;
  return true;
}

// Its pages are not looked up again, nor do they count against RLIMIT_MEMLOCK once more.
void use_registered(io_uring_sqe& sqe, driver::registered_memory& memory) noexcept {
  if (sqe.opcode == IORING_OP_SEND_ZC && op::names_registered(sqe, memory))
    sqe.ioprio |= IORING_RECVSEND_FIXED_BUF;
}

readiness wants(io_operation const& op) noexcept {
  return is_empty(op) ? readiness::nothing : readiness::writable;
}

// Errors by which the kernel refuses to send without copying: a Unix socket, say (EOPNOTSUPP); no more memory
// may be locked, against which a ring counts the pages (io_uring/notif.h, io_notif_account_mem). Containers
// often have a small RLIMIT_MEMLOCK.
bool may_be_for_the_pages(int error) noexcept {
  return error == -EOPNOTSUPP || error == -ENOMEM || error == -ENOBUFS;
}

int copy(io_operation& op) noexcept {
  constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  op::vectors const v(buffers_of(op));
  if (v.is_single())
    return op::uninterrupted([&] { return sys::send(op.fd(), v.one().iov_base, v.one().iov_len, flags); });
  return op::uninterrupted([&] { return sys::sendmsg(op.fd(), &message_of(op, v), flags); });
}

int perform(io_operation& op, attempt) noexcept {
  if (is_empty(op)) return 0;
  int const r = copy(op);
  if (may_be_for_the_pages(r)) copies(op) = true; // it is not: report it
  return r;
}

outcome complete(io_operation& op, int res, unsigned flags) noexcept {
  bool const notified = (flags & IORING_CQE_F_NOTIF) != 0;
  bool const more = (flags & IORING_CQE_F_MORE) != 0; // a notification follows, even after some errors
  if (notified) return copies(op) ? outcome::again : outcome::released;
  if (may_be_for_the_pages(res) && !copies(op)) {
    copies(op) = true;
    return more ? outcome::pending : outcome::again;
  }
  outcome const o = op::decode(op, res);
  if (o == outcome::again && more) {
    copies(op) = true;
    return outcome::pending;
  }
  return o == outcome::finished && more ? outcome::holding : o;
}

// Ends the connection with a reset, which empties its queue: tcp(7), connect(2) with AF_UNSPEC. Closing would
// leave the queue to the kernel until the peer has read it.
void abort(io_operation& op) noexcept {
  sockaddr const nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  (void)op::uninterrupted([&] { return sys::connect(op.fd(), &nowhere, sizeof nowhere); });
}

} // namespace

constinit operation_faces const async_send_zero_copy::table_ = {.name = "send_zero_copy",
                                                                .tries = inline_attempt::never,
                                                                .flow = direction::out,
                                                                .begin = begin,
                                                                .prepare = prepare,
                                                                .use_registered = use_registered,
                                                                .wants = wants,
                                                                .perform = perform,
                                                                .complete = complete,
                                                                .lends_buffers = true,
                                                                .abort = abort};

} // namespace unio
