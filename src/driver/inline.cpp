#include "driver/inline.hpp"

#include "core/pauses.hpp"
#include "driver/engine.hpp"
#include "driver/poll_events.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace unio::inline v0_1::driver {
namespace {

constexpr std::int64_t forever = deadline::forever;

// Which of the two calls of a wait comes first. A call that is ready costs one system call, trying first; one
// that is not costs three. A reader that had to wait the last time polls first: two. What it learns from is
// how long poll(2) took: below this it did not sleep.
constexpr std::int64_t did_not_sleep_ns = 3'000;

// The bit of sys::note_waited, or 0 for what does not learn.
std::uint32_t hint_bit(operation_faces const& f) noexcept {
  if (f.tries != inline_attempt::predicted || f.flow == direction::either) return 0;
  return f.flow == direction::out ? sys::waited_out : sys::waited_in;
}

// Waits until something is ready or `until` has come. 0: it has come; > 0: what is ready, as poll(2) has it;
// < 0: -errno. What ends a stream makes it readable too.
int wait(int fd, readiness what, std::int64_t until) noexcept {
  short const events = poll_events(what);
  pollfd p{.fd = fd, .events = events == POLLIN ? short{POLLIN | POLLRDHUP} : events, .revents = 0};
  for (;;) {
    timespec t{};
    if (until != forever) {
      std::int64_t const left = std::max<std::int64_t>(0, until - sys::steady_now());
      t = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    std::int64_t const r = sys::poll(&p, fd >= 0 ? 1 : 0, until == forever ? nullptr : &t);
    if (r != -EINTR) return r > 0 ? static_cast<unsigned short>(p.revents) : static_cast<int>(r);
  }
}

deadline deadline_of(io_operation const& op) noexcept {
  return op.faces().interruptible ? op.deadline() : deadline::none();
}

// Waits and tries again until it has ended. `poll_first`: nothing was tried yet.
[[gnu::cold]] void wait_inline(io_operation& op, attempt how, std::int64_t until, bool poll_first) noexcept {
  operation_faces const& f = op.faces();
  std::uint32_t const hint = hint_bit(f);
  if (hint != 0 && waits_for_descriptor(f.wants(op))) sys::note_waited(op.fd(), hint, true);
  bool in_vain = false;
  for (int retries = 0;;) {
    readiness const wants = f.wants(op);
    std::int64_t wake = until;
    if (wants == readiness::time) wake = std::min(wake, f.moment(op));
    bool const on_descriptor = waits_for_descriptor(wants) && !in_vain;
    // Nothing tells when to go on; nor does it of a call that may block, and could not all the same: a file
    // with a lease. That one is first tried again at once.
    if (!on_descriptor && wants != readiness::time) {
      bool const at_once = wants == readiness::worker && retries == 0;
      wake = std::min(
          wake, sys::steady_now() + (at_once ? 0 : detail::retry_ms(retries) * std::int64_t{1'000'000}));
      if (retries < detail::retries_that_grow) ++retries;
    }
    if (wants == readiness::resource) {
      f.resource->block(op, until);
      bool const timed_out = !f.resource->is_granted(op) && until != forever && sys::steady_now() >= until;
      if (f.complete(op, f.perform(op, how), 0) == outcome::finished) return;
      if (timed_out) return op.set_outcome(-ETIMEDOUT);
      continue;
    }
    if (on_descriptor && op.fd() < 0) return op.set_outcome(-EBADF); // as epoll and a ring say of it
    std::int64_t const before = poll_first ? sys::steady_now() : 0;
    int const ready = wait(on_descriptor ? op.fd() : -1, wants, wake);
    if (poll_first && sys::steady_now() - before < did_not_sleep_ns) sys::note_waited(op.fd(), hint, false);
    poll_first = false;
    if (ready < 0) return op.set_outcome(ready);
    // An error or a hang-up that the operation does not want would end the next wait at once as well.
    in_vain = ready > 0 && (ready & poll_events(wants)) == 0;
    if ((ready & POLLRDHUP) != 0) sys::note_waited(op.fd(), sys::shut_down_bit, true);
    // Bytes beat the deadline: one more attempt decides. A peer may make each wait end with news that this
    // operation does not want, so the clock is asked after those too.
    bool const timed_out = ready == 0 ? wake == until : until != forever && sys::steady_now() >= until;
    if (f.complete(op, f.perform(op, how), 0) == outcome::finished) return;
    if (timed_out) return op.set_outcome(-ETIMEDOUT);
  }
}

// Of one that has not ended at once. Out of line, so that one that does saves few registers.
[[gnu::cold, gnu::noinline]] void wait_inline(io_operation& op, bool poll_first) noexcept {
  deadline const d = deadline_of(op);
  if (d.is_zero()) return op.set_outcome(-EAGAIN); // it was only to be tried
  wait_inline(op, attempt::blocking, sys::due(d), poll_first);
}

bool is_over_at_once(io_operation& op, attempt how) noexcept {
  operation_faces const& f = op.faces();
  int const r = f.perform(op, how);
  return has_value(op, r) || f.complete(op, r, 0) == outcome::finished;
}

} // namespace

void run_inline(io_operation& op) noexcept {
  operation_faces const& f = op.faces();
  if (f.begin != nullptr) f.begin(op);
  // What is only to be tried must not wait even where the system call could.
  bool const is_tried = deadline_of(op).is_zero();
  std::uint32_t const hint = hint_bit(f);
  if (hint != 0 && !is_tried && sys::last_waited(op.fd(), hint)) return wait_inline(op, true);
  if (!is_over_at_once(op, is_tried ? attempt::nonblocking : attempt::blocking)) [[unlikely]]
    wait_inline(op, false);
}

// A thread's own multiplexer is one of this library's, of one thread.
bool has_to_move(io_multiplexer& own) noexcept { return static_cast<engine&>(own).has_to_move(); }

void run_driving(io_operation& op, io_multiplexer& own) noexcept {
  operation_faces const& f = op.faces();
  if (f.member != nullptr && !f.members_together) return run_inline(op); // each of its members comes here
  if (f.begin != nullptr) f.begin(op);
  deadline const d = deadline_of(op);
  bool const is_direct = f.wants(op) == readiness::worker && !f.waits_for_device;
  attempt const how = is_direct && !d.is_zero() ? attempt::blocking : attempt::nonblocking;
  if (is_over_at_once(op, how)) return;
  if (d.is_zero()) return op.set_outcome(-EAGAIN);
  std::int64_t const until = sys::due(d);
  if (!static_cast<engine&>(own).drive(op)) wait_inline(op, attempt::blocking, until, false);
}

} // namespace unio::driver
