// async_send_to: sending one datagram, or several of one size.

#include "op/datagram.hpp"
#include "sys/kernel_abi.hpp"

namespace unio::inline v0_1 {
namespace {

using op::dgram;

async_send_to& self(io_operation& op) noexcept { return static_cast<async_send_to&>(op); }
async_send_to const& self(io_operation const& op) noexcept { return static_cast<async_send_to const&>(op); }

void begin(io_operation& op) noexcept {
  dgram::errors_wait(self(op)) = false;
  dgram::falls_back(self(op)) = false;
}

bool asks_for_more(async_send_to const& s) noexcept {
  send_description const& how = dgram::how(s);
  return how.segment != 0 || how.ecn != ecn::not_capable;
}

// Writes the one message that does all of it, as the kernel takes it. False: it takes more than one, or
// something has been refused.
bool fill(io_operation& op) noexcept {
  async_send_to& me = self(op);
  send_description const& how = dgram::how(me);
  address_family const family = dgram::family(me);
  bool segmented = false;
  if (how.segment != 0) {
    std::size_t const total = dgram::bytes(me).bytes();
    segmented = op::is_segmented(how, family, total);
    if (segmented &&
        (total > op::longest_send(how, total) || sys::last_waited(op.fd(), sys::sends_singly_bit)))
      return false;
  }
  msghdr& m = op::new_header(dgram::memory(me));
  if (!op::put_buffers(m, dgram::bytes(me), op::own_vectors(dgram::memory(me)))) return false;
  bool const with_ecn = how.ecn != ecn::not_capable && !sys::last_waited(op.fd(), sys::refuses_ecn_bit);
  op::put_description(m, how, family, segmented, with_ecn, dgram::memory(me).control);
  return true;
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  async_send_to& me = self(op);
  bool const blindly = op::waits_blindly(dgram::how(me), dgram::family(me));
  if (dgram::falls_back(me) || blindly || op::queues_errors(op.fd()) || !fill(op)) return false;
  sqe.opcode = IORING_OP_SENDMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(dgram::memory(me)));
  sqe.len = 1;
  sqe.msg_flags = MSG_NOSIGNAL;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  async_send_to const& me = self(op);
  bool const blindly = op::waits_blindly(dgram::how(me), dgram::family(me));
  return blindly || dgram::errors_wait(me) ? readiness::retry : readiness::writable;
}

// Whatever was refused is left out, and what takes several messages is sent in several.
[[gnu::noinline]] int perform_with_care(io_operation& op) noexcept {
  async_send_to& me = self(op);
  dgram::falls_back(me) = true;
  int const r = op::send_datagram(op.fd(), dgram::family(me), dgram::how(me), dgram::bytes(me), 0);
  if (r == -EAGAIN) dgram::errors_wait(me) = op::queued_errors_end_waits(op.fd());
  return r;
}

bool is_refusal(int r) noexcept { return r == -EIO || r == -EINVAL || r == -EMSGSIZE; }

int perform(io_operation& op, attempt) noexcept {
  async_send_to& me = self(op);
  dgram::errors_wait(me) = false;
  if (dgram::falls_back(me) || op::queues_errors(op.fd()) || !fill(op)) [[unlikely]]
    return perform_with_care(op);
  int const r = op::uninterrupted(
      [&] { return sys::sendmsg(op.fd(), &op::header_of(dgram::memory(me)), MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (r < 0 && is_refusal(r) && asks_for_more(me)) [[unlikely]]
    return perform_with_care(op);
  return r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  bool const refused = is_refusal(res);
  // A ring was refused what it may not have needed: perform() finds out.
  if (refused && !dgram::falls_back(self(op)) && asks_for_more(self(op))) {
    dgram::falls_back(self(op)) = true;
    return outcome::again;
  }
  return op::decode(op, res);
}

} // namespace

constinit operation_faces const detail::send_to_faces = {.name = "send_to",
                                                         .tries = inline_attempt::predicted,
                                                         .interruptible = true,
                                                         .flow = direction::out,
                                                         .begin = begin,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .complete = complete,
                                                         .goes_with_others = op::always_with_others,
                                                         .can_be_taken = true};

} // namespace unio
