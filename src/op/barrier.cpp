// async_barrier: ordering writes and making them durable.

#include "op/face.hpp"

#include <unio/handle.hpp>

#include <fcntl.h>

namespace unio {
namespace {

async_barrier const& self(io_operation const& op) noexcept { return static_cast<async_barrier const&>(op); }

bool waits(barrier_kind k) noexcept {
  return k == barrier_kind::wait_all || k == barrier_kind::wait_data_only;
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (!is_file(op.kind())) return false;
  barrier_kind const what = self(op).what();
  sqe.fd = op.fd();
  if (waits(what)) {
    sqe.opcode = IORING_OP_FSYNC;
    if (what == barrier_kind::wait_data_only) sqe.fsync_flags = IORING_FSYNC_DATASYNC;
  } else {
    sqe.opcode = IORING_OP_SYNC_FILE_RANGE;
    sqe.sync_range_flags = SYNC_FILE_RANGE_WRITE; // offset and length of 0: the whole file
  }
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return is_file(op.kind()) ? readiness::worker : readiness::nothing;
}

int perform(io_operation& op, attempt how) noexcept {
  if (!is_file(op.kind())) return 0; // there is nothing to make durable
  if (how == attempt::nonblocking) return -EAGAIN;
  switch (self(op).what()) {
    case barrier_kind::wait_all:
      return op::uninterrupted([&] { return sys::fsync(op.fd()); });
    case barrier_kind::wait_data_only:
      return op::uninterrupted([&] { return sys::fdatasync(op.fd()); });
    default:
      return op::uninterrupted([&] { return sys::sync_file_range(op.fd(), 0, 0, SYNC_FILE_RANGE_WRITE); });
  }
}

} // namespace

constinit operation_faces const detail::barrier_faces = {.name = "barrier",
                                                         .tries = inline_attempt::always,
                                                         .interruptible = false,
                                                         .flow = direction::either,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .complete = op::decode};

} // namespace unio
