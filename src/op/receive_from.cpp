// async_receive_from and async_receive_error: receiving one datagram, and why others did not arrive.

#include "op/control_messages.hpp"
#include "op/datagram.hpp"
#include "sys/kernel_abi.hpp"

#include <linux/errqueue.h>
#include <netinet/in.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

using self = async_receive_from;

void begin(io_operation& op) noexcept { op::state<self>(op).errors_wait = false; }

// The message as the kernel takes it. The kernel changes it, so it is written afresh for each attempt.
bool fill(io_operation& op) noexcept {
  auto& s = op::state<self>(op);
  msghdr& m = op::new_header(s.memory);
  if (!op::put_buffers(m, op::as<self>(op).into(), op::own_vectors(s.memory))) return false;
  m.msg_iovlen = std::min(m.msg_iovlen, op::max_vectors);
  op::put_sender(m, *op::as<self>(op).info());
  // Without room for control messages the kernel drops the descriptors that a Unix peer sends along.
  if (s.family != address_family::unix_path) {
    m.msg_control = s.memory.control;
    m.msg_controllen = sizeof(s.memory.control);
  }
  return true;
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  // The ring's own wait for readiness would go round with an error in the socket's queue.
  if (op::queues_errors(op.fd()) || !fill(op)) return false;
  sqe.opcode = IORING_OP_RECVMSG;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op::header_of(op::state<self>(op).memory));
  sqe.len = 1;
  if (will_wait) sqe.ioprio = IORING_RECVSEND_POLL_FIRST; // saves a futile attempt
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return op::state<self>(op).errors_wait ? readiness::retry : readiness::readable;
}

int perform(io_operation& op, attempt) noexcept {
  auto& s = op::state<self>(op);
  s.errors_wait = false;
  int const r = op::apart_from_queued_errors(op.fd(), 8, [&]() -> std::int64_t {
    if (!fill(op)) return -EINVAL;
    return sys::recvmsg(op.fd(), &op::header_of(s.memory), MSG_DONTWAIT);
  });
  if (r != -EAGAIN) return r;
  if (op::is_shut_down(op.fd())) {
    op::new_header(s.memory);
    return 0;
  }
  s.errors_wait = op::queued_errors_end_waits(op.fd());
  return r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  if (res >= 0) op::decode_info(op::header_of(op::state<self>(op).memory), *op::as<self>(op).info());
  return op::decode(op, res);
}

// ---- errors ----------------------------------------------------------------------------------------------

datagram_error::kind kind_of(sock_extended_err const& e) noexcept {
  switch (static_cast<int>(e.ee_errno)) {
    case EMSGSIZE:
      return datagram_error::kind::too_big;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case EACCES:
    case ENOPROTOOPT:
      return datagram_error::kind::unreachable;
    default:
      return datagram_error::kind::other;
  }
}

// After the error comes the address of the host that reported it (ip(7), SO_EE_OFFENDER).
endpoint reporter(op::control_message const& c) noexcept {
  endpoint by;
  std::span<std::byte const> const address = c.data.subspan(sizeof(sock_extended_err));
  std::size_t const n = std::min<std::size_t>(address.size(), sizeof(sockaddr_in6));
  std::memcpy(by.data(), address.data(), n);
  by.resize(static_cast<std::uint32_t>(n));
  return by;
}

bool decode_error(op::control_message const& c, datagram_error& into) noexcept {
  if (!c.is(IPPROTO_IP, IP_RECVERR) && !c.is(IPPROTO_IPV6, IPV6_RECVERR)) return false;
  sock_extended_err e;
  if (!c.get(e)) return false;
  into.what = kind_of(e);
  into.why = std::error_code(static_cast<int>(e.ee_errno), std::system_category());
  if (into.what == datagram_error::kind::too_big) into.mtu = e.ee_info;
  if (e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6) into.reported_by = reporter(c);
  return true;
}

int perform_error(io_operation& op, attempt) noexcept {
  datagram_error found;
  alignas(8) std::byte control[512];
  msghdr m{};
  int const r = op::uninterrupted([&] {
    m = {};
    m.msg_name = found.to.data();
    m.msg_namelen = endpoint::capacity;
    m.msg_control = control;
    m.msg_controllen = sizeof(control);
    return sys::recvmsg(op.fd(), &m, MSG_ERRQUEUE | MSG_DONTWAIT);
  });
  if (r < 0) return r;
  op::set_name_size(found.to, m.msg_namelen);
  op::control_messages all({control, std::min<std::size_t>(m.msg_controllen, sizeof(control))});
  for (op::control_message c; all.next(c);)
    if (decode_error(c, found)) break;
  op::value<async_receive_error>(op) = found;
  return 0;
}

} // namespace

constinit operation_faces const async_receive_from::table_ = {.name = "receive_from",
                                                              .begin = begin,
                                                              .prepare = prepare,
                                                              .wants = wants,
                                                              .perform = perform,
                                                              .complete = complete,
                                                              .goes_with_others = op::always_with_others,
                                                              .can_be_taken = true};

// What it learns is about the queue of errors, not about what may be read.
constinit operation_faces const async_receive_error::table_ = {.name = "receive_error",
                                                               .tries = inline_attempt::always,
                                                               .flow = direction::either,
                                                               .wants = op::wants<readiness::exceptional>,
                                                               .perform = perform_error,
                                                               .complete = op::decode};

} // namespace unio
