#include "driver/inline.hpp"

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <unio/timer_handle.hpp>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>

namespace unio::driver {
namespace {

constexpr std::int64_t forever = deadline::forever;
constexpr std::int64_t retry_ns = 1'000'000;

short poll_events(readiness r) noexcept {
  switch (r) {
    case readiness::writable: return POLLOUT;
    case readiness::exceptional: return POLLPRI;
    default: return POLLIN;
  }
}

// Which of the two calls of a wait comes first. A call that is ready costs one system call, trying first; one that is not
// costs three. A reader that had to wait the last time polls first: two. What it learns from is how long poll(2) took:
// below this it did not sleep.
constexpr std::int64_t did_not_sleep_ns = 3'000;

// Per descriptor and direction: did the last call have to wait? A hint, so relaxed, and mixed up above a million.
class wait_hint {
 public:
  wait_hint(io_operation const& op, readiness wants) noexcept
      : byte_(bytes[static_cast<unsigned>(op.fd()) & (sys::descriptor_table_size - 1)]),
        bit_(wants == readiness::writable ? 2 : 1),
        generation_(static_cast<std::uint8_t>(sys::generation(op.fd()) << 2)) {}
  [[nodiscard]] bool waited() const noexcept { return (current() & bit_) != 0; }
  void set(bool waited) noexcept {
    byte_.store(static_cast<std::uint8_t>(waited ? current() | bit_ : current() & ~bit_), std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] std::uint8_t current() const noexcept {
    std::uint8_t const b = byte_.load(std::memory_order_relaxed);
    return (b & 0xfc) == generation_ ? b : generation_;
  }
  static inline std::atomic<std::uint8_t> bytes[sys::descriptor_table_size];
  std::atomic<std::uint8_t>& byte_;
  std::uint8_t bit_;
  std::uint8_t generation_;
};

// Waits until something is ready or `until` has come. 0: it has come; > 0: ready; < 0: -errno.
int wait(int fd, readiness what, std::int64_t until) noexcept {
  pollfd p{.fd = fd, .events = poll_events(what), .revents = 0};
  for (;;) {
    timespec t{};
    if (until != forever) {
      std::int64_t const left = std::max<std::int64_t>(0, until - sys::steady_now());
      t = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    std::int64_t const r = sys::poll(&p, fd >= 0 ? 1 : 0, until == forever ? nullptr : &t);
    if (r != -EINTR) return static_cast<int>(r);
  }
}

}  // namespace

void run_inline(io_operation& op) noexcept {
  operation_faces const& f = op.faces();
  if (f.begin != nullptr) f.begin(op);
  deadline const d = f.interruptible ? op.deadline() : deadline::none();
  // A readiness call that is only to be tried must not wait even where it could.
  attempt const how = d.is_zero() ? attempt::nonblocking : attempt::blocking;
  bool const system = d.which() == deadline::kind::system;
  std::int64_t until = d.is_none() ? forever : -1;  // the clock is read when there is something to wait for

  readiness wants = f.wants(op);
  bool const adaptive = f.tries == inline_attempt::predicted && !d.is_zero() &&
                        (wants == readiness::readable || wants == readiness::writable);
  bool poll_first = adaptive && wait_hint(op, wants).waited();
  bool timed_out = false;
  for (;;) {
    if (!poll_first) {
      int const r = f.perform(op, how);
      if (f.complete(op, r, 0) == outcome::finished) return;
      if (d.is_zero()) return op.set_outcome(-EAGAIN);
      if (timed_out) return op.set_outcome(-ETIMEDOUT);
      if (adaptive) wait_hint(op, f.wants(op)).set(true);
    }
    if (until < 0) until = d.due(sys::steady_now(), system ? sys::system_now() : 0);
    wants = f.wants(op);
    std::int64_t wake = until;
    if (wants == readiness::time) wake = std::min(wake, static_cast<async_wait&>(op).due());
    if (wants == readiness::retry) wake = std::min(wake, sys::steady_now() + retry_ns);
    bool const on_descriptor = wants == readiness::readable || wants == readiness::writable || wants == readiness::exceptional;
    std::int64_t const before = poll_first ? sys::steady_now() : 0;
    int const ready = wait(on_descriptor ? op.fd() : -1, wants, wake);
    if (poll_first && sys::steady_now() - before < did_not_sleep_ns) wait_hint(op, wants).set(false);
    poll_first = false;
    if (ready < 0) return op.set_outcome(ready);
    // Bytes beat the deadline: one more attempt decides.
    timed_out = ready == 0 && wake == until;
  }
}

}  // namespace unio::driver
