// async_shutdown: ending a direction of a connection.

#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/socket_handle.hpp>

#include <sys/socket.h>

namespace unio::inline v0_1 {
namespace {

// ENOTCONN (no connection, or one that its peer has reset) is passed on, as all else is: whether the peer
// got everything is for the caller to know.
int perform(io_operation& op, attempt) noexcept {
  int how = SHUT_RDWR;
  if (op::as<async_shutdown>(op).which() == socket_side::receive) how = SHUT_RD;
  if (op::as<async_shutdown>(op).which() == socket_side::send) how = SHUT_WR;
  // Whatever it returns: UDP without a peer says ENOTCONN, and is shut down (net/ipv4/af_inet.c).
  if (how != SHUT_WR) sys::note_waited(op.fd(), sys::shut_down_bit, true);
  return static_cast<int>(sys::shutdown(op.fd(), how));
}

} // namespace

// No prepare: a ring gives a shutdown to a kernel thread every time (io_uring/net.c, io_shutdown_prep sets
// REQ_F_FORCE_ASYNC; before that io_shutdown answered EAGAIN). The call itself never waits, so it is made
// here.
constinit operation_faces const async_shutdown::table_ = {.name = "shutdown",
                                                          .tries = inline_attempt::always,
                                                          .interruptible = false,
                                                          .flow = direction::out,
                                                          .wants = op::wants<readiness::nothing>,
                                                          .perform = perform,
                                                          .complete = op::decode};

} // namespace unio
