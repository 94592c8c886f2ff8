// async_raw_ring: an entry that the caller fills in.
//
// What it means only the kernel knows. So it may be performed while no thread enters the ring, waits for
// nothing that another driver could see, and is never performed by a system call of ours: where a ring would
// be needed and is not there, perform() says so.
//
// prepare() looks whether the entry takes from the ring what unio's operations stand on. When its ring is
// lost, it ends with std::errc::state_not_recoverable. It has no multishot form: the engine's own learns
// from the first one that is refused, for all.

#include "op/face.hpp"
#include "sys/multishot.hpp"

#include <unio/extend/raw_ring.hpp>

namespace unio::inline v0_1::detail {

struct raw_ring_access {
  static raw_ring_operation& of(io_operation& op) noexcept { return static_cast<raw_ring_operation&>(op); }

  // What unio's own operations stand on (see "Refused" in the header).
  static bool is_refused(io_uring_sqe const& e) noexcept {
    constexpr unsigned not_the_callers = IOSQE_FIXED_FILE | IOSQE_IO_DRAIN | IOSQE_IO_LINK |
                                         IOSQE_IO_HARDLINK | IOSQE_BUFFER_SELECT | IOSQE_CQE_SKIP_SUCCESS;
    if ((e.flags & not_the_callers) != 0) return true;
    switch (e.opcode) {
      case IORING_OP_ASYNC_CANCEL:
      case IORING_OP_POLL_REMOVE:
      case IORING_OP_TIMEOUT_REMOVE:
      case IORING_OP_LINK_TIMEOUT:
      case IORING_OP_FILES_UPDATE:
      case IORING_OP_PROVIDE_BUFFERS:
      case IORING_OP_REMOVE_BUFFERS:
      case sys::op_read_multishot:
      case sys::op_receive_zero_copy:
        return true;
      case IORING_OP_ACCEPT:
        return e.file_index != 0 || (e.ioprio & IORING_ACCEPT_MULTISHOT) != 0;
      case IORING_OP_OPENAT:
      case IORING_OP_OPENAT2:
      case IORING_OP_CLOSE:
      case IORING_OP_SOCKET:
      case sys::op_pipe:
        return e.file_index != 0;
      case IORING_OP_RECV:
      case IORING_OP_RECVMSG:
        return (e.ioprio & IORING_RECV_MULTISHOT) != 0;
      case IORING_OP_POLL_ADD:
        return (e.len & IORING_POLL_ADD_MULTI) != 0;
      case IORING_OP_TIMEOUT:
        return (e.timeout_flags & sys::timeout_multishot) != 0;
      case IORING_OP_MSG_RING:
        return e.addr == IORING_MSG_SEND_FD;
      default:
        return false;
    }
  }

  static void begin(io_operation& op) noexcept {
    of(op).flags_ = 0;
    of(op).refused_ = false;
    of(op).has_value_ = false;
  }

  static bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
    sqe.fd = op.fd();
    of(op).fill_(of(op), sqe);
    of(op).refused_ = is_refused(sqe);
    return !of(op).refused_;
  }

  static int perform(io_operation& op, attempt) noexcept {
    if (of(op).refused_) return -EINVAL;
    // A last attempt before it ends, or the only one: whether there is a ring is not known yet.
    if (op.links.is.timed_out || op.deadline().is_zero()) return -EAGAIN;
    return -ENOSYS;
  }

  // What the end of a system call would have made EINTR of (include/linux/errno.h: ERESTARTSYS, …), and a
  // ring passes on: opening a named pipe that is cancelled, say (Linux 6.18).
  static bool is_interrupted(int res) noexcept {
    return res == -512 || res == -513 || res == -514 || res == -516;
  }

  static outcome complete(io_operation& op, int res, unsigned flags) noexcept {
    bool const more = (flags & IORING_CQE_F_MORE) != 0;
    if (of(op).has_value_) return more ? outcome::pending : outcome::released;
    if (is_interrupted(res)) res = -EINTR;
    bool const ended = res == -ECANCELED || res == -EINTR;
    bool const asked = op.links.is.cancel_wanted || op.links.is.timed_out;
    op.set_outcome(ended && asked ? op.canceled_code() : res);
    of(op).flags_ = flags;
    of(op).has_value_ = more;
    return more ? outcome::holding : outcome::finished;
  }

  static constexpr operation_faces faces = {.name = "raw_ring",
                                            .tries = inline_attempt::never,
                                            .flow = direction::either,
                                            .begin = begin,
                                            .prepare = prepare,
                                            .wants = op::wants<readiness::retry>,
                                            .perform = perform,
                                            .complete = complete,
                                            .lends_buffers = true};
};

raw_ring_operation::raw_ring_operation(filler f, handle_kind kind, int fd, io_multiplexer* m,
                                       unio::deadline d) noexcept
    : io_operation(raw_ring_access::faces, kind, fd, m, d), fill_(f) {}

raw_ring_operation::result_type raw_ring_operation::result() const noexcept {
  if (outcome_value() < 0) return failed();
  return ring_completion{outcome_value(), flags_};
}

} // namespace unio::detail
