// async_read_events: the events of a watch_handle.

#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/watch_handle.hpp>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

mutable_buffer into(io_operation const& op) noexcept { return op::as<async_read_events>(op).into(); }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_READ;
  sqe.fd = op.fd();
  sqe.off = static_cast<std::uint64_t>(-1);
  sqe.addr = reinterpret_cast<std::uintptr_t>(into(op).data());
  sqe.len = static_cast<std::uint32_t>(std::min(into(op).size(), op::max_bytes));
  return true;
}

int perform(io_operation& op, attempt) noexcept {
  return op::uninterrupted(
      [&] { return sys::read(op.fd(), into(op).data(), std::min(into(op).size(), op::max_bytes)); });
}

} // namespace

constinit operation_faces const async_read_events::table_ = {.name = "read_events",
                                                             .prepare = prepare,
                                                             .wants = op::wants<readiness::readable>,
                                                             .perform = perform,
                                                             .complete = op::decode};

} // namespace unio
