// async_send_to: sending one datagram, or several of one size.

#include "op/datagram.hpp"
#include "sys/kernel_abi.hpp"

namespace unio::inline v0_1 {
namespace {

using self = async_send_to;

void begin(io_operation& op) noexcept {
  op::state<self>(op).errors_wait = false;
  op::state<self>(op).falls_back = false;
}

bool asks_for_more(io_operation const& op) noexcept {
  send_description const& how = op::as<self>(op).how();
  return how.segment != 0 || how.ecn != ecn::not_capable;
}

// Writes the one message that does all of it, as the kernel takes it. False: it takes more than one, or
// something has been refused.
bool fill(io_operation& op) noexcept {
  auto& s = op::state<self>(op);
  send_description const& how = op::as<self>(op).how();
  const_buffers const& bytes = op::as<self>(op).bytes();
  bool segmented = false;
  if (how.segment != 0) {
    std::size_t const total = bytes.bytes();
    segmented = op::is_segmented(how, s.family, total);
    if (segmented &&
        (total > op::longest_send(how, total) || sys::last_waited(op.fd(), sys::sends_singly_bit)))
      return false;
  }
  msghdr& m = op::new_header(s.memory);
  if (!op::put_buffers(m, bytes, op::own_vectors(s.memory))) return false;
  bool const with_ecn = how.ecn != ecn::not_capable && !sys::last_waited(op.fd(), sys::refuses_ecn_bit);
  op::put_description(m, op.fd(), how, s.family, segmented, with_ecn, s.memory.control);
  return true;
}

bool waits_blindly(io_operation const& op) noexcept {
  return op::waits_blindly(op::as<self>(op).how(), op::state<self>(op).family);
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  auto& s = op::state<self>(op);
  if (s.falls_back || waits_blindly(op) || op::queues_errors(op.fd()) || !fill(op)) return false;
  sqe.opcode = IORING_OP_SENDMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(s.memory));
  sqe.len = 1;
  sqe.msg_flags = MSG_NOSIGNAL;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  bool const retries = waits_blindly(op) || op::state<self>(op).errors_wait;
  return retries ? readiness::retry : readiness::writable;
}

// Whatever was refused is left out, and what takes several messages is sent in several.
[[gnu::noinline]] int perform_with_care(io_operation& op) noexcept {
  auto& s = op::state<self>(op);
  s.falls_back = true;
  int const r = op::send_datagram(op.fd(), s.family, op::as<self>(op).how(), op::as<self>(op).bytes(), 0);
  if (r == -EAGAIN) s.errors_wait = op::queued_errors_end_waits(op.fd());
  return r;
}

bool is_refusal(int r) noexcept { return r == -EIO || r == -EINVAL || r == -EMSGSIZE; }

int perform(io_operation& op, attempt) noexcept {
  auto& s = op::state<self>(op);
  s.errors_wait = false;
  if (s.falls_back || op::queues_errors(op.fd()) || !fill(op)) [[unlikely]]
    return perform_with_care(op);
  int const r = op::uninterrupted(
      [&] { return sys::sendmsg(op.fd(), &op::header_of(s.memory), MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (r < 0 && is_refusal(r) && asks_for_more(op)) [[unlikely]]
    return perform_with_care(op);
  return r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  bool const refused = is_refusal(res);
  // A ring was refused what it may not have needed: perform() finds out.
  if (bool& falls_back = op::state<self>(op).falls_back; refused && !falls_back && asks_for_more(op)) {
    falls_back = true;
    return outcome::again;
  }
  return op::decode(op, res);
}

} // namespace

constinit operation_faces const async_send_to::table_ = {.name = "send_to",
                                                         .flow = direction::out,
                                                         .begin = begin,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .values_from = 0,
                                                         .complete = complete,
                                                         .goes_with_others = op::always_with_others,
                                                         .can_be_taken = true};

} // namespace unio
