// async_lock_range and async_lock_file: open-file-description locks.
//
// No driver can wait for a lock: there is nothing to poll, a ring has no operation for it, and a thread that
// sleeps in F_OFD_SETLKW could only be woken by a signal. So an attempt that finds it held is repeated after
// a while; only a blocking call without deadline, and without a multiplexer to drive, sleeps in the kernel.

#include "op/access.hpp"
#include "op/face.hpp"

namespace unio::inline v0_1 {
namespace {

void give_back(io_operation& op) noexcept { op::access::give_back_lock(op); }

int perform(io_operation& op, attempt how) noexcept {
  return op::access::take_lock(op, how == attempt::blocking && op.deadline().is_none());
}

constexpr operation_faces faces(char const* name) noexcept {
  return {.name = name,
          .tries = inline_attempt::always,
          .flow = direction::either,
          .begin = give_back, // releases the lock of an earlier run whose result was not taken
          .wants = op::wants<readiness::retry>,
          .perform = perform,
          .complete = op::decode,
          .reclaim = give_back};
}

} // namespace

constinit operation_faces const detail::lock_range_faces = faces("lock_range");
constinit operation_faces const detail::lock_file_faces = faces("lock_file");

} // namespace unio
