// async_connect, async_connected: connecting to a peer.

#include "handle/sockets.hpp"
#include "op/access.hpp"
#include "op/face.hpp"

#include <sys/socket.h>

namespace unio::inline v0_1 {
namespace {

using detail::connect_operation;
connect_operation& self(io_operation& op) noexcept { return static_cast<connect_operation&>(op); }

void begin(io_operation& op) noexcept { op::access::begun(op) = false; }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (op::access::refused_connect(op) != 0) return false;
  if (op::access::begun(op)) return false; // the kernel is connecting; it remains to wait and ask
  sqe.opcode = IORING_OP_CONNECT;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(self(op).to().data());
  sqe.off = self(op).to().size();
  return true;
}

readiness wants(io_operation const& op) noexcept {
  if (op::access::refused_connect(op) != 0) return readiness::nothing;
  // A Unix socket whose peer's backlog is full is not notified when there is room again.
  return op::access::begun(op) ? readiness::writable : readiness::retry;
}

int perform(io_operation& op, attempt) noexcept {
  if (int const refused = op::access::refused_connect(op); refused != 0) return refused;
  endpoint const& to = self(op).to();
  int const r = static_cast<int>(sys::connect(op.fd(), static_cast<sockaddr const*>(to.data()), to.size()));
  switch (-r) {
    case EINTR: // continues in the background, as EINPROGRESS
    case EINPROGRESS:
      op::access::begun(op) = true;
      return -EAGAIN;
    case EALREADY:
      return op::access::begun(op) ? -EAGAIN : r;
    case EISCONN:
      return op::access::begun(op) ? 0 : r; // the second call of one that succeeded in the background
    default:
      return r;
  }
}

// The kernel goes on connecting, except where a Unix socket waits for room in its peer's backlog.
void given_back(io_operation& op) noexcept {
  if (op::access::refused_connect(op) == 0)
    op::access::begun(op) = static_cast<sockaddr const*>(self(op).to().data())->sa_family != AF_UNIX;
}

bool object(io_operation const& op, detail::failed_object& to) noexcept {
  to = detail::sockets::object_of(static_cast<connect_operation const&>(op).to());
  return true;
}

} // namespace

constinit operation_faces const detail::connect_faces = {.name = "connect",
                                                         .tries = inline_attempt::never,
                                                         .flow = direction::out,
                                                         .begin = begin,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .complete = op::decode,
                                                         .object = object,
                                                         .given_back = given_back};

} // namespace unio
