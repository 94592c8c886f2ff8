// async_wait: waiting for a timer's moment. Drivers take no part: the multiplexer's deadline queue holds it.

#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/due.hpp"

#include <unio/timer_handle.hpp>

namespace unio {
namespace {

async_wait& self(io_operation& op) noexcept { return static_cast<async_wait&>(op); }

void begin(io_operation& op) noexcept { op::access::due(op) = sys::due(self(op).moment()); }

readiness wants(io_operation const&) noexcept { return readiness::time; }

int perform(io_operation& op, attempt) noexcept {
  return sys::steady_now() >= op::access::due(op) ? 0 : -EAGAIN;
}

outcome complete(io_operation& op, int res, unsigned) noexcept { return op::decode(op, res); }

std::int64_t moment(io_operation const& op) noexcept { return static_cast<async_wait const&>(op).due(); }

} // namespace

deadline timer_handle::from_now(deadline span) noexcept {
  using clock = std::chrono::steady_clock;
  return clock::time_point(std::chrono::nanoseconds(sys::due(span)));
}

constinit operation_faces const detail::wait_faces = {.name = "wait",
                                                      .tries = inline_attempt::always,
                                                      .interruptible = true,
                                                      .begin = begin,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .moment = moment};

} // namespace unio
