// async_write: all of writing, for every driver.

#include "op/declared.hpp"
#include "op/face.hpp"
#include "op/registered.hpp"
#include "sys/shared_streams.hpp"
#include "sys/sigpipe.hpp"
#include "sys/unwaiting.hpp"

#include <unio/handle.hpp>

#include <sys/socket.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

async_write const& self(io_operation const& op) noexcept { return op::as<async_write>(op); }

bool is_empty(io_operation const& op) noexcept { return self(op).request().buffers.bytes() == 0; }
bool is_pipe(io_operation const& op) noexcept {
  return op.kind() == handle_kind::pipe || op.kind() == handle_kind::named_pipe;
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  if (op::blocks(op.fd(), op.kind())) return false;
  // A ring writes to a pipe in the context of the thread that enters it, and raises SIGPIPE there.
  if (is_empty(op) || (is_pipe(op) && !sys::has_rwf_nosignal())) return false;
  io_request<const_buffers> const& request = self(op).request();
  sqe.fd = op.fd();
  sqe.off = is_file(op.kind()) ? request.offset : no_offset;
  if (is_pipe(op)) sqe.rw_flags = sys::rwf_nosignal;
  // A ring also writes to a file in that context, if it can do so at once: see file_size_is_limited().
  if (is_file(op.kind()) && (sys::is_nonblocking(op.fd()) || sys::file_size_is_limited()))
    sqe.flags |= IOSQE_ASYNC;
  op::vectors const v(request.buffers);
  if (v.is_single()) {
    bool const socket = op.kind() == handle_kind::stream_socket;
    sqe.opcode = socket ? IORING_OP_SEND : IORING_OP_WRITE;
    if (socket) {
      sqe.off = 0;
      sqe.msg_flags = MSG_NOSIGNAL;
    }
    sqe.addr = reinterpret_cast<std::uintptr_t>(v.one().iov_base);
    sqe.len = static_cast<std::uint32_t>(std::min(v.one().iov_len, op::max_bytes));
    return true;
  }
  // A gathered send needs a message header that lives until it ends; readiness and sendmsg(2) serve as well.
  if (op.kind() == handle_kind::stream_socket) return false;
  sqe.opcode = IORING_OP_WRITEV;
  sqe.addr = reinterpret_cast<std::uintptr_t>(v.data());
  sqe.len = static_cast<std::uint32_t>(v.count());
  return true;
}

readiness wants(io_operation const& op) noexcept {
  if (is_empty(op)) return readiness::nothing;
  return is_file(op.kind()) ? readiness::worker : readiness::writable;
}

int write_file(io_operation const& op, io_request<const_buffers> const& request, attempt how) noexcept {
  op::vectors const v(request.buffers);
  auto const at = static_cast<std::int64_t>(request.offset);
  if (how == attempt::blocking)
    return op::uninterrupted([&] { return sys::pwritev2(op.fd(), v.data(), v.count(), at, 0); });
  // What is only tried is content with less.
  auto const write = op.deadline().is_zero() ? sys::write_some_unwaiting : sys::write_unwaiting;
  return static_cast<int>(write(op.fd(), v.data(), v.count(), at));
}

int write_pipe(io_operation const& op, const_buffers const& all) noexcept {
  bool const asks_first = op::blocks(op.fd(), op.kind());
  if (asks_first && !op::is_writable(op.fd())) return -EAGAIN;
  const_buffers const buffers = asks_first ? all.first(sys::shared_blocking_bytes(op.fd())) : all;
  op::vectors const v(buffers);
  if (sys::has_rwf_nosignal()) {
    int const r =
        op::uninterrupted([&] { return sys::pwritev2(op.fd(), v.data(), v.count(), -1, sys::rwf_nosignal); });
    if (r != -EOPNOTSUPP) return r; // an eventfd, say, was adopted as a pipe but may reject the flags
  }
  sys::signal_guard guard(sys::written::stream);
  return op::uninterrupted([&] { return guard.returned(sys::writev(op.fd(), v.data(), v.count())); });
}

constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

int send_socket(io_operation const& op, const_buffers const& buffers) noexcept {
  op::vectors const v(buffers);
  if (v.is_single())
    return op::uninterrupted(
        [&] { return sys::send(op.fd(), v.one().iov_base, v.one().iov_len, send_flags); });
  msghdr m{};
  m.msg_iov = const_cast<iovec*>(v.data());
  m.msg_iovlen = static_cast<std::size_t>(v.count());
  return op::uninterrupted([&] { return sys::sendmsg(op.fd(), &m, send_flags); });
}

[[gnu::noinline]] int perform_any(io_operation& op, attempt how) noexcept {
  io_request<const_buffers> const& request = self(op).request();
  if (is_empty(op)) return 0;
  if (is_file(op.kind())) return write_file(op, request, how);
  if (op.kind() == handle_kind::stream_socket) return send_socket(op, request.buffers);
  return write_pipe(op, request.buffers);
}

int perform(io_operation& op, attempt how) noexcept {
  const_buffers const& buffers = self(op).request().buffers;
  bool const is_short = buffers.size() == 1 && !buffers.front().empty() && sys::kernel_answers();
  if (!is_short || op.kind() != handle_kind::stream_socket) return perform_any(op, how);
  const_buffer const bytes = buffers.front();
  return op::uninterrupted(
      [&] { return sys::kernel_calls::send(op.fd(), bytes.data(), bytes.size(), send_flags); });
}

} // namespace

constinit operation_faces const async_write::table_ = {
    .name = "write",
    .flow = direction::out,
    .prepare = prepare,
    .use_registered = op::use_registered<IORING_OP_WRITE, IORING_OP_WRITE_FIXED>,
    .wants = wants,
    .perform = perform,
    .values_from = 0,
    .complete = op::decode,
    .object = op::opening<detail::file_use::writing>,
    .goes_with_others = op::is_socket,
    .can_be_taken = true};

} // namespace unio
