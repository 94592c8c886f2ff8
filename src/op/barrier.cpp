// async_barrier: ordering writes and making them durable.

#include "handle/names.hpp"
#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/handle.hpp>

#include <fcntl.h>

#include <cerrno>

namespace unio::inline v0_1 {
namespace {

bool waits(barrier_kind k) noexcept {
  return k == barrier_kind::wait_all || k == barrier_kind::wait_data_only;
}

// Opened without access, which fsync(2) refuses.
bool is_anchor(io_operation const& op) noexcept { return op.kind() == handle_kind::path; }

// Whether there is something to be made durable: a directory's names, if that is waited for.
bool has_effect(io_operation const& op) noexcept {
  bool const has_names = op.kind() == handle_kind::directory || is_anchor(op);
  return is_file(op.kind()) || (has_names && waits(op::as<async_barrier>(op).what()));
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (!has_effect(op) || is_anchor(op)) return false;
  barrier_kind const what = op::as<async_barrier>(op).what();
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
  return has_effect(op) ? readiness::worker : readiness::nothing;
}

int perform(io_operation& op, attempt how) noexcept {
  if (!has_effect(op)) return op.fd() < 0 ? -EBADF : 0; // a closed one: nothing is durable
  if (how == attempt::nonblocking) return -EAGAIN;
  if (is_anchor(op)) return detail::sync_folder(op.fd());
  switch (op::as<async_barrier>(op).what()) {
    case barrier_kind::wait_all:
      return op::uninterrupted([&] { return sys::fsync(op.fd()); });
    case barrier_kind::wait_data_only:
      return op::uninterrupted([&] { return sys::fdatasync(op.fd()); });
    default:
      return op::uninterrupted([&] { return sys::sync_file_range(op.fd(), 0, 0, SYNC_FILE_RANGE_WRITE); });
  }
}

} // namespace

constinit operation_faces const async_barrier::table_ = {.name = "barrier",
                                                         .tries = inline_attempt::always,
                                                         .flow = direction::either,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .complete = op::decode,
                                                         .waits_for_device = true};

} // namespace unio
