// async_open: from a name to a file.

#include "handle/file.hpp"
#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/descriptors.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/file_handle.hpp>

namespace unio {
namespace {

async_open& self(io_operation& op) noexcept { return static_cast<async_open&>(op); }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  // creation::always_new and a barrier after creation are several calls.
  if (op::access::refused(op) != 0 || op::access::always_new(op) || op::access::wants_barrier(op))
    return false;
  sqe.opcode = IORING_OP_OPENAT;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(self(op).name().c_str());
  sqe.open_flags = static_cast<std::uint32_t>(op::access::open_flags(op));
  sqe.len = new_file_permissions;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return op::access::refused(op) != 0 ? readiness::nothing : readiness::worker;
}

int perform(io_operation& op, attempt how) noexcept {
  if (op::access::refused(op) != 0) return op::access::refused(op);
  if (how == attempt::nonblocking) return -EAGAIN;
  return op::access::always_new(op) ? open_always_new(self(op)) : open_plain(self(op));
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  int const fd = res >= 0 ? sys::above_standard(res) : res;
  if (fd >= 0) op::access::set_opened(op, take_in(fd, op::access::open_flags(op)));
  return op::decode(op, fd);
}

void reclaim(io_operation& op) noexcept {
  if (op.outcome_value() < 0) return;
  sys::bump_generation(op.outcome_value()); // clears the notes of take_in()
  sys::close(op.outcome_value());
}

} // namespace

constinit operation_faces const detail::open_faces = {.name = "open",
                                                      .tries = inline_attempt::never,
                                                      .interruptible = false,
                                                      .prepare = prepare,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .reclaim = reclaim};

} // namespace unio
