// async_wait_signal: waiting for a signal.
//
// A ring takes no part but for the readiness: it could read in a thread of the kernel, to which other signals
// are pending than to the one that waits (signalfd(2)).

#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/signal_handle.hpp>

#include <sys/signalfd.h>

#include <csignal>

namespace unio::inline v0_1 {
namespace {

int read_masked(int fd, signal_info& out) noexcept {
  signalfd_siginfo s;
  int const r = op::uninterrupted([&] { return sys::read(fd, &s, sizeof s); });
  if (r <= 0) return r;
  out.number = static_cast<int>(s.ssi_signo);
  out.code = s.ssi_code;
  out.process = static_cast<int>(s.ssi_pid);
  out.user = s.ssi_uid;
  out.value = s.ssi_signo == SIGCHLD ? s.ssi_status : static_cast<std::int64_t>(s.ssi_ptr);
  return r;
}

int perform(io_operation& op, attempt) noexcept {
  signal_info& out = op::value<async_wait_signal>(op);
  detail::signal_subscription* const place = op::state<async_wait_signal>(op).place;
  if (place == nullptr) return read_masked(op.fd(), out);
  // A pipe, into which the handler writes whole records (src/handle/signal.cpp).
  int const r = op::uninterrupted([&] { return sys::read(op.fd(), &out, sizeof out); });
  if (r > 0) detail::put_missed(*place);
  return r;
}

} // namespace

constinit operation_faces const async_wait_signal::table_ = {.name = "wait_signal",
                                                             .wants = op::wants<readiness::readable>,
                                                             .perform = perform,
                                                             .complete = op::decode_done};

} // namespace unio
