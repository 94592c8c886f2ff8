// async_splice and async_tee: moving bytes inside the kernel.

#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/shared_streams.hpp"
#include "sys/sigpipe.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

async_splice& self(io_operation& op) noexcept { return static_cast<async_splice&>(op); }
async_splice const& self(io_operation const& op) noexcept { return static_cast<async_splice const&>(op); }

void begin(io_operation& op) noexcept {
  op::access::wait_for(op, is_file(op.kind()) ? readiness::worker : readiness::readable);
}

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  async_splice const& s = self(op);
  // Between pipes and sockets readiness and the system call are cheaper than the kernel thread that the ring
  // uses.
  if (s.request().bytes == 0 || op::access::waits_for(op) != readiness::worker) return false;
  sqe.opcode = IORING_OP_SPLICE;
  sqe.fd = s.to();
  sqe.off = s.request().to_offset;
  sqe.splice_fd_in = s.from();
  sqe.splice_off_in = s.request().from_offset;
  sqe.len = static_cast<std::uint32_t>(std::min(s.request().bytes, op::max_bytes));
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return self(op).request().bytes == 0 ? readiness::nothing : op::access::waits_for(op);
}

// Which side was not ready: a pipe or socket without data, or one without room. A file is always ready.
readiness unready_side(async_splice const& s) noexcept {
  pollfd p[2] = {{.fd = s.from(), .events = POLLIN, .revents = 0},
                 {.fd = s.to(), .events = POLLOUT, .revents = 0}};
  timespec const now{};
  sys::poll(p, 2, &now);
  if (p[0].revents == 0) return readiness::readable;
  if (p[1].revents == 0) return readiness::writable;
  // Both are ready by now, so there will be no edge for the one that was not. For a file it only means that
  // reading or writing it may wait.
  return is_file(s.kind()) ? readiness::worker : readiness::retry;
}

int perform(io_operation& op, attempt how) noexcept {
  async_splice& s = self(op);
  if (s.request().bytes == 0) return 0;
  if (how == attempt::nonblocking && is_file(op.kind())) return -EAGAIN;
  auto offset = [](extent_type& at) {
    return at == no_offset ? nullptr : reinterpret_cast<std::int64_t*>(&at);
  };
  extent_type from_at = s.request().from_offset;
  extent_type to_at = s.request().to_offset;
  std::size_t wanted = std::min(s.request().bytes, op::max_bytes);
  if (!is_file(op.kind())) {
    // Of what is no pipe the call asks O_NONBLOCK alone, which nobody sets where others share it.
    if (sys::is_shared_blocking(s.from()) && !op::is_readable(s.from())) return -EAGAIN;
    if (sys::is_shared_blocking(s.to())) {
      if (!op::is_writable(s.to())) return -EAGAIN;
      wanted = std::min(wanted, sys::shared_blocking_bytes(s.to()));
    }
  }
  // splice(2) has no flag against signals.
  sys::signal_guard guard(is_file(op.kind()) ? sys::written::file : sys::written::stream);
  int const r = op::uninterrupted([&] {
    return guard.returned(sys::splice(s.from(), offset(from_at), s.to(), offset(to_at), wanted,
                                      SPLICE_F_NONBLOCK | SPLICE_F_MOVE));
  });
  // The kernel writes piece by piece: one may have failed, with its signal, after others had moved.
  if (r > 0 && static_cast<std::size_t>(r) < wanted) guard.returned_short();
  return r;
}

int perform_tee(io_operation& op, attempt) noexcept {
  async_splice const& s = self(op);
  if (s.request().bytes == 0) return 0;
  sys::signal_guard guard(sys::written::stream);
  return op::uninterrupted([&] {
    return guard.returned(
        sys::tee(s.from(), s.to(), std::min(s.request().bytes, op::max_bytes), SPLICE_F_NONBLOCK));
  });
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  outcome const o = op::decode(op, res);
  if (o == outcome::again) op::access::wait_for(op, unready_side(self(op)));
  return o;
}

void for_each_descriptor(io_operation const& op, void (*f)(int fd, void* context), void* context) {
  f(self(op).from(), context);
  f(self(op).to(), context);
}

bool object(io_operation const& op, detail::failed_object& to) noexcept {
  using detail::file_use;
  async_splice const& s = self(op);
  return detail::put_opening(to, s.from(), op.outcome_value(), file_use::reading) ||
         detail::put_opening(to, s.to(), op.outcome_value(), file_use::placing);
}

} // namespace

constinit operation_faces const detail::splice_faces = {.name = "splice",
                                                        .flow = direction::either,
                                                        .begin = begin,
                                                        .prepare = prepare,
                                                        .wants = wants,
                                                        .perform = perform,
                                                        .complete = complete,
                                                        .object = object,
                                                        .for_each_descriptor = for_each_descriptor,
                                                        .goes_with_others = op::is_socket};

constinit operation_faces const detail::tee_faces = {.name = "tee",
                                                     .flow = direction::either,
                                                     .begin = begin,
                                                     .wants = wants,
                                                     .perform = perform_tee,
                                                     .complete = complete,
                                                     .object = object,
                                                     .for_each_descriptor = for_each_descriptor};

} // namespace unio
