// async_wait_event: waiting for an eventfd.

#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/timer_handle.hpp>

namespace unio::inline v0_1 {
namespace {

constexpr std::size_t counter_size = sizeof(std::uint64_t); // eventfd(2): a read takes exactly eight bytes

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_READ;
  sqe.fd = op.fd();
  sqe.off = static_cast<std::uint64_t>(-1);
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::value<async_wait_event>(op));
  sqe.len = counter_size;
  return true;
}

int perform(io_operation& op, attempt) noexcept {
  return op::uninterrupted(
      [&] { return sys::read(op.fd(), &op::value<async_wait_event>(op), counter_size); });
}

} // namespace

constinit operation_faces const async_wait_event::table_ = {.name = "wait_event",
                                                            .prepare = prepare,
                                                            .wants = op::wants<readiness::readable>,
                                                            .perform = perform,
                                                            .complete = op::decode_done};

} // namespace unio
