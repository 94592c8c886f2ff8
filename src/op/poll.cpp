// async_poll: waiting for readiness without moving anything.

#include "driver/poll_events.hpp"
#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/handle.hpp>

namespace unio::inline v0_1 {
namespace {

unsigned wanted(io_operation const& op) noexcept {
  return driver::ring_poll_events(op::as<async_poll>(op).what());
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  sqe.opcode = IORING_OP_POLL_ADD;
  sqe.fd = op.fd();
  sqe.poll32_events = wanted(op);
  return true;
}

readiness wants(io_operation const& op) noexcept { return op::as<async_poll>(op).what(); }

// As a ring's: the events, or -errno.
int perform(io_operation& op, attempt) noexcept {
  if (op.fd() < 0) return -EBADF; // which poll(2) leaves out
  pollfd p{.fd = op.fd(), .events = driver::poll_events(op::as<async_poll>(op).what()), .revents = 0};
  timespec const now{};
  int const r = op::uninterrupted([&] { return sys::poll(&p, 1, &now); });
  if (r <= 0) return r == 0 ? -EAGAIN : r;
  return (p.revents & POLLNVAL) != 0 ? -EBADF : static_cast<unsigned short>(p.revents);
}

outcome complete(io_operation& op, int res, unsigned flags) noexcept {
  return driver::is_news(res, wanted(op)) ? op::decode_done(op, res, flags) : outcome::again;
}

} // namespace

constinit operation_faces const async_poll::table_ = {.name = "poll",
                                                      .flow = direction::either,
                                                      .prepare = prepare,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .goes_with_others = op::is_socket,
                                                      .can_be_taken = true};

} // namespace unio
