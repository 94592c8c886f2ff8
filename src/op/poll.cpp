// async_poll: waiting for readiness without moving anything.

#include "driver/poll_events.hpp"
#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/handle.hpp>

namespace unio::inline v0_1 {
namespace {

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_POLL_ADD;
  sqe.fd = op.fd();
  sqe.poll32_events = driver::ring_poll_events(op::as<async_poll>(op).what());
  return true;
}

readiness wants(io_operation const& op) noexcept { return op::as<async_poll>(op).what(); }

int perform(io_operation& op, attempt) noexcept {
  pollfd p{.fd = op.fd(), .events = driver::poll_events(op::as<async_poll>(op).what()), .revents = 0};
  timespec const now{};
  int const r = op::uninterrupted([&] { return sys::poll(&p, 1, &now); });
  if (r == 0) return -EAGAIN;
  return r > 0 && (p.revents & POLLNVAL) != 0 ? -EBADF : r;
}

} // namespace

constinit operation_faces const async_poll::table_ = {.name = "poll",
                                                      .flow = direction::either,
                                                      .prepare = prepare,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = op::decode_done,
                                                      .goes_with_others = op::is_socket,
                                                      .can_be_taken = true};

} // namespace unio
