#include "testing/backend.hpp"

#include <cstdio>
#include <cstdlib>

namespace unio::inline v0_1::testing {

using driver::engine;

void simulated_backend::predict(engine& e, int fd) noexcept {
  driver::descriptor* const d = e.descriptors().find(fd);
  if (d == nullptr) return;
  bool const tries = world_.options.inline_attempts;
  for (driver::predictor* const p : {&d->reading, &d->writing}) {
    if (tries && world_.random.one_in(2)) {
      p->set_ready();
    } else {
      p->set_empty();
    }
  }
}

int simulated_backend::bind(engine& e) noexcept {
  kernel_.memory().count_in(e.statistics);
  return 0;
}

void simulated_backend::arm(engine& e, io_operation& op, driver::attempted how) noexcept {
  if (op.fd() >= 0 && !world_.owns(op.fd())) {
    std::fprintf(stderr, "unio::testing: %s on a descriptor that is not simulated\n", op.faces().name);
    UNIO_EXPECTS(false, "a simulated multiplexer runs operations on simulated handles only");
  }
  readiness const wants = op.links.is.wants;
  bool const as_epoll = waits_for_descriptor(wants) && world_.random.one_in(2);
  if (how == driver::attempted::with_others && as_epoll) return e.perform_later(op);
  predict(e, op.fd());
  bool const may_poll = world_.options.readiness && waits_for_descriptor(wants);
  if (may_poll && !op.is_multishot() && world_.random.one_in(3)) return park(e, op);
  ring_client::arm(e, op, how);
}

bool simulated_backend::prefers_batch(engine& e, io_operation const&) noexcept {
  return world_.options.inline_attempts && (e.has_company() || e.holds_starts()) && world_.random.one_in(2);
}

bool simulated_backend::disarm(engine& e, io_operation& op) noexcept {
  // Like epoll, which is the only one to know of it.
  bool const only_waits = op.links.is.where == driver::place::polled && !is_queued(op);
  if (!only_waits || !world_.options.readiness || !world_.random.one_in(2)) return ring_client::disarm(e, op);
  kernel_.withdraw(slots_.user_data(op.links.slot));
  take_back(op);
  world_.note("withdraw", op.fd() < 0 ? -1 : op.fd() - first_descriptor, 0);
  return true;
}

int simulated_backend::reap(engine& e, std::int64_t until) noexcept {
  constexpr int max_deadlocks = 16;
  bool const posted = post_events(e);
  int const r = ring_client::reap(e, posted ? 0 : until);
  (void)post_events(e);
  deadlocks_ = r == -EDEADLK ? deadlocks_ + 1 : 0;
  if (deadlocks_ == max_deadlocks) {
    std::fputs("unio: this simulation would sleep for ever: nothing is due and nothing can become ready\n",
               stderr);
    std::abort();
  }
  return r;
}

// Outside of any receiver, and not inside the driver: as an item of the multiplexer.
bool simulated_backend::post_events(engine& e) noexcept {
  bool any = false;
  while (std::function<void()> f = world_.take_event()) any = e.post(std::move(f)).has_value() || any;
  return any;
}

void simulated_backend::describe(capabilities& c) const noexcept {
  c.driver = "simulated";
  c.ring_entries = world_.options.queue_entries;
  c.registered_bytes = kernel_.memory().bytes();
}

} // namespace unio::testing
