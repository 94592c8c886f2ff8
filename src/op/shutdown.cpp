// async_shutdown: ending a direction of a connection.

#include "op/face.hpp"

#include <unio/socket_handle.hpp>

#include <sys/socket.h>

namespace unio::inline v0_1 {
namespace {

async_shutdown& self(io_operation& op) noexcept { return static_cast<async_shutdown&>(op); }

// ENOTCONN (no connection, or one that its peer has reset) is passed on, as all else is: whether the peer
// got everything is for the caller to know.
int perform(io_operation& op, attempt) noexcept {
  int how = SHUT_RDWR;
  if (self(op).which() == socket_side::receive) how = SHUT_RD;
  if (self(op).which() == socket_side::send) how = SHUT_WR;
  return static_cast<int>(sys::shutdown(op.fd(), how));
}

} // namespace

// No prepare: a ring gives a shutdown to a kernel thread every time (io_uring/net.c, io_shutdown_prep sets
// REQ_F_FORCE_ASYNC; before that io_shutdown answered EAGAIN). The call itself never waits, so it is made
// here.
constinit operation_faces const detail::shutdown_faces = {.name = "shutdown",
                                                          .tries = inline_attempt::always,
                                                          .interruptible = false,
                                                          .flow = direction::out,
                                                          .wants = op::wants<readiness::nothing>,
                                                          .perform = perform,
                                                          .complete = op::decode};

} // namespace unio
