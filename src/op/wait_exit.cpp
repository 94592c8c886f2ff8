// async_wait_exit: waiting for the end of a process.
//
// A ring has WAITID from Linux 6.7 on, which knows nothing of statuses that another wait has taken. The
// descriptor becomes readable when the process has ended, on every driver, and waitid(2) then does not wait.

#include "handle/process_state.hpp"
#include "op/face.hpp"

namespace unio::inline v0_1 {

/// Private state of the operation.
struct detail::process_access {
  static detail::process_state* state(async_wait_exit& op) noexcept { return op.state_; }
  static exit_status& status(async_wait_exit& op) noexcept { return op.status_; }
};

namespace {

using access = detail::process_access;

int perform(io_operation& op, attempt) noexcept {
  auto& self = static_cast<async_wait_exit&>(op);
  detail::process_state* const state = access::state(self);
  if (state == nullptr) return -EBADF; // a closed handle
  return detail::look(*state, op.fd(), access::status(self));
}

} // namespace

constinit operation_faces const detail::wait_exit_faces = {
    .name = "wait_exit", .wants = op::wants<readiness::readable>, .perform = perform, .complete = op::decode};

} // namespace unio
