// async_poll: waiting for readiness without moving anything.

#include "driver/poll_events.hpp"
#include "op/face.hpp"

#include <unio/handle.hpp>

namespace unio::inline v0_1 {
namespace {

async_poll const& self(io_operation const& op) noexcept { return static_cast<async_poll const&>(op); }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_POLL_ADD;
  sqe.fd = op.fd();
  sqe.poll32_events = driver::ring_poll_events(self(op).what());
  return true;
}

readiness wants(io_operation const& op) noexcept { return self(op).what(); }

int perform(io_operation& op, attempt) noexcept {
  pollfd p{.fd = op.fd(), .events = driver::poll_events(self(op).what()), .revents = 0};
  timespec const now{};
  int const r = op::uninterrupted([&] { return sys::poll(&p, 1, &now); });
  if (r == 0) return -EAGAIN;
  return r > 0 && (p.revents & POLLNVAL) != 0 ? -EBADF : r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept { return op::decode(op, res < 0 ? res : 0); }

} // namespace

constinit operation_faces const detail::poll_faces = {.name = "poll",
                                                      .flow = direction::either,
                                                      .prepare = prepare,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .goes_with_others = op::is_socket,
                                                      .can_be_taken = true};

} // namespace unio
