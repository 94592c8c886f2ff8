// async_close: closing a descriptor.

#include "op/access.hpp"
#include "op/face.hpp"

namespace unio::inline v0_1 {
namespace {

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_CLOSE;
  sqe.fd = op.fd();
  return true;
}

// Closing a regular file may wait for a device or a server.
readiness wants(io_operation const& op) noexcept {
  return is_file(op.kind()) ? readiness::worker : readiness::nothing;
}

int perform(io_operation& op, attempt how) noexcept {
  if (how == attempt::nonblocking && is_file(op.kind())) return -EAGAIN;
  return static_cast<int>(sys::close(op.fd()));
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  op::access::closed(op) = true;
  // On Linux the descriptor is gone even when a signal cut the wait short (close(2), NOTES).
  int const before = op::access::failed_before_close(op);
  op.set_outcome(before != 0 ? before : res == -EINTR ? 0 : res);
  return outcome::finished;
}

} // namespace

constinit operation_faces const detail::close_faces = {.name = "close",
                                                       .tries = inline_attempt::never,
                                                       .interruptible = false,
                                                       .prepare = prepare,
                                                       .wants = wants,
                                                       .perform = perform,
                                                       .complete = complete};

} // namespace unio
