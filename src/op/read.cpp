// async_read: all of reading, for every driver.

#include "driver/inline.hpp"
#include "driver/this_thread.hpp"
#include "handle/mapped_view.hpp"
#include "op/access.hpp"
#include "op/face.hpp"
#include "op/registered.hpp"
#include "sys/unwaiting.hpp"

#include <sys/socket.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

async_read& self(io_operation& op) noexcept { return static_cast<async_read&>(op); }
async_read const& self(io_operation const& op) noexcept { return static_cast<async_read const&>(op); }

// Out of line, as the rest of what is rare, so that the functions which are called for each read are short.
[[gnu::noinline]] bool has_no_bytes(mutable_buffers const& several) noexcept { return several.bytes() == 0; }
bool is_empty(io_operation const& op) noexcept {
  mutable_buffers const& buffers = self(op).request().buffers;
  return buffers.size() <= 1 ? buffers.array()->empty() : has_no_bytes(buffers);
}

[[gnu::noinline]] bool prepare_any(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  if (op.kind() == handle_kind::mapped_file || is_empty(op) || op::blocks(op.fd(), op.kind())) return false;
  io_request<mutable_buffers> const& request = self(op).request();
  sqe.fd = op.fd();
  sqe.off = is_file(op.kind()) ? request.offset : no_offset;
  op::vectors const v(request.buffers);
  if (v.is_single()) {
    bool const socket = op.kind() == handle_kind::stream_socket;
    sqe.opcode = socket ? IORING_OP_RECV : IORING_OP_READ;
    if (socket) sqe.off = 0;
    if (socket && will_wait) sqe.ioprio = IORING_RECVSEND_POLL_FIRST; // saves a futile attempt
    sqe.addr = reinterpret_cast<std::uintptr_t>(v.one().iov_base);
    sqe.len = static_cast<std::uint32_t>(std::min(v.one().iov_len, op::max_bytes));
  } else {
    sqe.opcode = IORING_OP_READV;
    sqe.addr = reinterpret_cast<std::uintptr_t>(v.data());
    sqe.len = static_cast<std::uint32_t>(v.count());
  }
  if (op.kind() == handle_kind::file && sys::is_nonblocking(op.fd())) sqe.flags |= IOSQE_ASYNC;
  return true;
}

// Of a file into one piece of memory, as most that go to a ring with others.
bool prepare(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  io_request<mutable_buffers> const& request = self(op).request();
  mutable_buffer const& one = *request.buffers.array();
  if (op.kind() != handle_kind::file || request.buffers.size() != 1 || one.empty())
    return prepare_any(op, sqe, will_wait);
  sqe.opcode = IORING_OP_READ;
  sqe.fd = op.fd();
  sqe.off = request.offset;
  sqe.addr = reinterpret_cast<std::uintptr_t>(one.data());
  sqe.len = static_cast<std::uint32_t>(std::min(one.size(), op::max_bytes));
  if (sys::is_nonblocking(op.fd())) sqe.flags |= IOSQE_ASYNC;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  if (op.kind() == handle_kind::mapped_file || is_empty(op)) return readiness::nothing;
  return op.kind() == handle_kind::file ? readiness::worker : readiness::readable;
}

int read_file(io_operation const& op, io_request<mutable_buffers> const& request, attempt how) noexcept {
  op::vectors const v(request.buffers);
  auto const at = static_cast<std::int64_t>(request.offset); // no_offset is -1: the file's position
  if (how == attempt::blocking)
    return op::uninterrupted([&] { return sys::preadv2(op.fd(), v.data(), v.count(), at, 0); });
  // What is only tried is content with what there is.
  auto const read = op.deadline().is_zero() ? sys::read_some_unwaiting : sys::read_unwaiting;
  return static_cast<int>(read(op.fd(), v.data(), v.count(), at));
}

// Whether the short paths apply: see kernel_calls.
bool is_short(mutable_buffer into) noexcept { return sys::kernel_answers() && !into.empty(); }
int read_short(int fd, mutable_buffer into) noexcept {
  return op::uninterrupted([&] { return sys::kernel_calls::read(fd, into.data(), into.size()); });
}
int recv_short(int fd, mutable_buffer into) noexcept {
  return op::uninterrupted(
      [&] { return sys::kernel_calls::recv(fd, into.data(), into.size(), MSG_DONTWAIT); });
}

// Where the thread's own multiplexer has others to run, it does so while this waits for the device: -EAGAIN.
[[gnu::noinline]] int read_file_short(int fd, mutable_buffer into, std::int64_t at) noexcept {
  io_multiplexer* const own = detail::shortcut.get();
  if (own != nullptr && driver::has_to_move(*own)) return -EAGAIN;
  return op::uninterrupted([&] {
    return at == -1 ? sys::kernel_calls::read(fd, into.data(), into.size())
                    : sys::kernel_calls::pread(fd, into.data(), into.size(), at);
  });
}

[[gnu::noinline]] int perform_any(io_operation& op, attempt how) noexcept {
  io_request<mutable_buffers> const& request = self(op).request();
  if (is_empty(op)) [[unlikely]]
    return 0;
  switch (op.kind()) {
    case handle_kind::mapped_file: {
      mapped_file_handle& file = op::access::mapped_file(op);
      auto* const view = detail::mapped_view.load(std::memory_order_relaxed);
      if (view == nullptr) return -EBADF; // it has never been open
      std::byte* where = nullptr;
      std::int64_t const n =
          view(file, request.offset, std::min(request.buffers.bytes(), op::max_bytes), where);
      if (n > 0) op::access::set_view(op, where);
      return static_cast<int>(n);
    }
    case handle_kind::file:
      return read_file(op, request, how);
    default:
      break;
  }
  op::vectors const v(request.buffers);
  int const r = op::read_stream(op.fd(), op.kind(), v);
  return v.is_single() ? op::note_short(op, r, v.one().iov_len) : r;
}

int perform(io_operation& op, attempt how) noexcept {
  mutable_buffers const& buffers = self(op).request().buffers;
  if (op.kind() == handle_kind::stream_socket && buffers.size() == 1 && is_short(buffers.front()))
      [[likely]] {
    std::size_t const size = buffers.front().size();
    int const r = recv_short(op.fd(), buffers.front());
    op.set_fell_short(r > 0 && static_cast<std::size_t>(r) < size);
    return r;
  }
  return perform_any(op, how);
}

// Out of line, so that each saves only the registers that it needs.
[[gnu::noinline]] void recv_then(io_operation& op, operation_faces::performed then, void* context) noexcept {
  then(op, recv_short(op.fd(), self(op).request().buffers.front()), context);
}
[[gnu::noinline]] void perform_long_then(io_operation& op, operation_faces::performed then,
                                         void* context) noexcept {
  then(op, perform_any(op, attempt::nonblocking), context);
}

// What an attempt on a file that has not filled its memory comes to: something is not cached, the file ends
// there, or its filesystem cannot say.
[[gnu::noinline]] void fell_short_then(io_operation& op, operation_faces::performed then, void* context,
                                       std::int64_t r) noexcept {
  io_request<mutable_buffers> const& request = self(op).request();
  if (r == -EOPNOTSUPP) r = -EAGAIN;
  if (!op.deadline().is_zero()) {
    op::vectors const v(request.buffers);
    r = sys::read_or_nothing(op.fd(), v.data(), v.count(), static_cast<std::int64_t>(request.offset), r);
  }
  then(op, static_cast<int>(r), context);
}
[[gnu::noinline]] void read_file_then(io_operation& op, operation_faces::performed then,
                                      void* context) noexcept {
  io_request<mutable_buffers> const& request = self(op).request();
  mutable_buffer const* const one = request.buffers.array(); // laid out as an iovec
  std::int64_t const r = sys::uninterrupted([&] {
    return sys::kernel_calls::preadv2(op.fd(), one, 1, static_cast<std::int64_t>(request.offset), RWF_NOWAIT);
  });
  if (static_cast<std::size_t>(r) != one->size()) [[unlikely]]
    return fell_short_then(op, then, context, r);
  then(op, static_cast<int>(r), context);
}

void perform_then(io_operation& op, operation_faces::performed then, void* context) noexcept {
  mutable_buffers const& buffers = self(op).request().buffers;
  if (buffers.size() == 1 && is_short(buffers.front())) [[likely]] {
    if (op.kind() == handle_kind::pipe) return then(op, read_short(op.fd(), buffers.front()), context);
    if (op.kind() == handle_kind::stream_socket) return recv_then(op, then, context);
    bool const has_offset = static_cast<std::int64_t>(self(op).request().offset) >= 0;
    if (op.kind() == handle_kind::file && has_offset && !sys::is_direct(op.fd()))
      return read_file_then(op, then, context);
  }
  perform_long_then(op, then, context);
}

// What is in the page cache comes faster with others, in one call for all; what is not has to wait anyway.
bool goes_with_others(io_operation const& op) noexcept {
  return op::is_socket(op) || op.kind() == handle_kind::file;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  if (res == 0 && !is_empty(op) && op::awaits_first_writer(op)) return outcome::again;
  return op::decode(op, res);
}

} // namespace

// The same attempt that run_inline() begins with.
int async_read::read_at_once(int fd, handle_kind kind, mutable_buffer into, extent_type offset,
                             bool only_try) noexcept {
  bool const is_pipe = kind == handle_kind::pipe;
  if (!is_short(into)) return not_at_once;
  if (!is_pipe && kind != handle_kind::stream_socket) {
    if (kind != handle_kind::file || only_try) return not_at_once;
    int const r = read_file_short(fd, into, static_cast<std::int64_t>(offset));
    return r != -EAGAIN ? r : not_at_once;
  }
  if (!only_try && sys::last_waited(fd, sys::waited_in)) return not_at_once;
  int const r = is_pipe ? read_short(fd, into) : recv_short(fd, into);
  if (r != -EAGAIN || only_try) [[likely]]
    return r;
  sys::note_waited(fd, sys::waited_in, true);
  return not_at_once;
}

constinit std::atomic<detail::view_function*> detail::mapped_view{nullptr};

failure async_read::failed_reading(int fd, int native_code) noexcept {
  return detail::failed_as_open(native_code, detail::read_faces.name, fd, detail::file_use::reading);
}

constinit operation_faces const detail::read_faces = {
    .name = "read",
    .prepare = prepare,
    .use_registered = op::use_registered<IORING_OP_READ, IORING_OP_READ_FIXED>,
    .wants = wants,
    .perform = perform,
    .perform_then = perform_then,
    .values_from = 1,
    .complete = complete,
    .object = op::opening<detail::file_use::reading>,
    .goes_with_others = goes_with_others,
    .waits_for_device = true,
    .can_be_taken = true};

} // namespace unio
