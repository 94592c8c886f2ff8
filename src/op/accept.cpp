// async_accept, async_accept_many and async_accept_sequenced: accepting connections.

#include "handle/sockets.hpp"
#include "op/face.hpp"

#include <unio/listening_datagram_handle.hpp>
#include <unio/socket_handle.hpp>

#include <sys/socket.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

constexpr int accepted_flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_ACCEPT;
  sqe.fd = op.fd();
  sqe.accept_flags = accepted_flags;
  // One request for many never says that a Unix socket was shut down (Linux 6.18).
  if (op.is_multishot() && detail::sockets::is_no_unix_socket(op.fd())) sqe.ioprio = IORING_ACCEPT_MULTISHOT;
  return true;
}

// Errors of a connection that ended while it waited to be accepted, for which accept(2) advises a retry.
bool concerns_the_connection(int error) noexcept {
  constexpr int its[] = {ECONNABORTED, EPROTO,       ENETDOWN,   ENOPROTOOPT, EHOSTDOWN,
                         ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
  return error < 0 && std::ranges::find(its, -error) != std::end(its);
}

// Errors that may pass after a pause. EPERM: a firewall forbids this connection, says accept(2); other
// sources of it (a filter, a security module) may return it for ever, so it is not retried at once.
bool may_pass(int error) noexcept {
  return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM || error == -EPERM;
}

int perform(io_operation& op, attempt) noexcept {
  // Each failure takes a dead connection off the queue; the bound is for a kernel that keeps failing.
  for (int dead = 0; dead < 64; ++dead) {
    int const r = op::uninterrupted([&] { return sys::accept4(op.fd(), nullptr, nullptr, accepted_flags); });
    if (r == -EAGAIN && op::is_shut_down(op.fd())) return -EINVAL; // a Unix socket
    if (!concerns_the_connection(r)) return r;
  }
  return -EAGAIN;
}

outcome complete(io_operation& op, int res, unsigned flags) noexcept {
  if (res >= 0) res = sys::above_standard(res);
  if (concerns_the_connection(res))
    return (flags & IORING_CQE_F_MORE) != 0 ? outcome::pending : outcome::again;
  if (!op.is_multishot()) return op::decode(op, res);
  if (res >= 0 || may_pass(res)) {
    op.set_outcome(res);
    return res >= 0 ? outcome::more : outcome::pause;
  }
  return op::decode(op, res);
}

// A ring does better than an attempt where one request accepts many.
constexpr operation_faces faces_named(char const* name, inline_attempt tries) noexcept {
  return {.name = name,
          .tries = tries,
          .prepare = prepare,
          .wants = op::wants<readiness::readable>,
          .perform = perform,
          .complete = complete,
          .reclaim = op::close_outcome,
          .waits_in_line = true};
}

} // namespace

bool detail::may_accept_again(std::error_code why) noexcept {
  return why.category() == std::system_category() && may_pass(-why.value());
}

constinit operation_faces const async_accept::table_ = faces_named("accept", inline_attempt::predicted);
constinit operation_faces const async_accept_many::table_ = faces_named("accept_many", inline_attempt::never);
constinit operation_faces const async_accept_sequenced::table_ =
    faces_named("accept", inline_attempt::predicted);

} // namespace unio
