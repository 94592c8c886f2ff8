// async_wait_event: waiting for an eventfd.

#include "op/access.hpp"
#include "op/face.hpp"

namespace unio::inline v0_1 {
namespace {

constexpr std::size_t counter_size = sizeof(std::uint64_t); // eventfd(2): a read takes exactly eight bytes

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_READ;
  sqe.fd = op.fd();
  sqe.off = static_cast<std::uint64_t>(-1);
  sqe.addr = reinterpret_cast<std::uintptr_t>(op::access::count(op));
  sqe.len = counter_size;
  return true;
}

int perform(io_operation& op, attempt) noexcept {
  return op::uninterrupted([&] { return sys::read(op.fd(), op::access::count(op), counter_size); });
}

} // namespace

constinit operation_faces const detail::wait_event_faces = {.name = "wait_event",
                                                            .prepare = prepare,
                                                            .wants = op::wants<readiness::readable>,
                                                            .perform = perform,
                                                            .complete = op::decode};

} // namespace unio
