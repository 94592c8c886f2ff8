// async_wait_exit: waiting for the end of a process.
//
// A ring has WAITID from Linux 6.7 on, which knows nothing of statuses that another wait has taken. The
// descriptor becomes readable when the process has ended, on every driver, and waitid(2) then does not wait.

#include "handle/process_state.hpp"
#include "op/declared.hpp"
#include "op/face.hpp"

namespace unio::inline v0_1 {
namespace {

int perform(io_operation& op, attempt) noexcept {
  detail::process_state* const process = op::state<async_wait_exit>(op).process;
  if (process == nullptr || op.fd() < 0) return -EBADF; // a closed handle
  return detail::look(*process, op.fd(), op::value<async_wait_exit>(op));
}

} // namespace

constinit operation_faces const async_wait_exit::table_ = {
    .name = "wait_exit", .wants = op::wants<readiness::readable>, .perform = perform, .complete = op::decode};

} // namespace unio
