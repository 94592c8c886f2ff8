// async_wait_event: waiting for an eventfd.

#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/event_handle.hpp>

namespace unio {
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

readiness wants(io_operation const&) noexcept { return readiness::readable; }

int perform(io_operation& op, attempt) noexcept {
  return op::uninterrupted([&] { return sys::read(op.fd(), op::access::count(op), counter_size); });
}

outcome complete(io_operation& op, int res, unsigned) noexcept { return op::decode(op, res); }

} // namespace

constinit operation_faces const detail::wait_event_faces = {.name = "wait_event",
                                                            .tries = inline_attempt::predicted,
                                                            .interruptible = true,
                                                            .prepare = prepare,
                                                            .wants = wants,
                                                            .perform = perform,
                                                            .complete = complete};

} // namespace unio
