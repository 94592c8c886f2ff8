// async_no_op: nothing, in a later turn of the loop.

#include "op/face.hpp"

#include <unio/timer_handle.hpp>

namespace unio::inline v0_1 {
namespace {

bool prepare(io_operation&, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_NOP;
  return true;
}

int perform(io_operation&, attempt how) noexcept {
  if (how == attempt::blocking) sys::sched_yield();
  return 0;
}

} // namespace

constinit operation_faces const detail::no_op_faces = {.name = "no_op",
                                                       .tries = inline_attempt::never,
                                                       .interruptible = false,
                                                       .prepare = prepare,
                                                       .wants = op::wants<readiness::nothing>,
                                                       .perform = perform,
                                                       .values_from = 0,
                                                       .complete = op::decode};

} // namespace unio
