// async_wait: waiting for a timer's moment. Drivers take no part: the multiplexer's deadline queue holds it.

#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/due.hpp"

namespace unio::inline v0_1 {
namespace {

async_wait& self(io_operation& op) noexcept { return static_cast<async_wait&>(op); }

void begin(io_operation& op) noexcept { op::access::due(op) = sys::due(self(op).moment()); }

int perform(io_operation& op, attempt) noexcept {
  return sys::steady_now() >= op::access::due(op) ? 0 : -EAGAIN;
}

std::int64_t moment(io_operation const& op) noexcept { return static_cast<async_wait const&>(op).due(); }

} // namespace

deadline timer_handle::from_now(deadline span) noexcept {
  using clock = std::chrono::steady_clock;
  return clock::time_point(std::chrono::nanoseconds(sys::due(span)));
}

constinit operation_faces const detail::wait_faces = {.name = "wait",
                                                      .tries = inline_attempt::always,
                                                      .begin = begin,
                                                      .wants = op::wants<readiness::time>,
                                                      .perform = perform,
                                                      .complete = op::decode,
                                                      .moment = moment};

} // namespace unio
