// What an operation may need beside its descriptor and a backend: a deadline, a worker, a resource, a moment,
// its members, its receiver. How it is taken back, and looked at out of turn.

#include "core/pauses.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/workers.hpp"

#include <algorithm>
#include <cerrno>

namespace unio::inline v0_1::driver {
namespace {

/// After so many looks in vain poll() asks the kernel about all.
constexpr unsigned looks_per_question = 1024;

} // namespace

// An operation that has a deadline, several descriptors, a moment or members, or that several threads share.
void engine::launch_with_care(io_operation& op, descriptor& d, attempted how) noexcept {
  take_off(op, d);
  operation_links& l = op.links;
  if (shared_ != nullptr) shared_->counts.begin(1);
  if (op.faces().for_each_descriptor == nullptr) [[likely]] {
    sys::enter_flight(op.fd());
  } else {
    ++several_descriptors_;
    op.for_each_descriptor([this](int fd) {
      sys::enter_flight(fd);
      descriptors_.find(fd); // so that relisting it cannot fail for want of memory
    });
  }
  readiness const wants = op.faces().wants(op);
  l.due = moment_of(op, wants);
  if (l.due != forever) deadlines_.insert(op);
  if (wants == readiness::time) return move(op, place::timed);
  if (has_members(op)) return move(op, place::with_members);
  if (op.is_multishot() && never_waits(op)) return restart(op);
  arm(op, how, wants);
}

void engine::enqueue(io_operation& op) noexcept {
  if (!op.faces().resource->enqueue(op)) return perform_later(op);
  ++statistics.resource_waits;
  move(op, place::queued);
}

// What was posted with it is what calls this, or is taken back.
void engine::granted(io_operation& op) noexcept {
  inside const here(*this);
  op.faces().resource->leave(op);
  move(op, place::at_hand);
  UNIO_PROBE(buffer_granted, &op);
  if (!perform_now(op)) await_readiness(op);
}

void engine::to_worker(io_operation& op) noexcept {
  move(op, place::with_worker);
  mail_.lend();
  given_at_ = patience::now();
  if (give_to_worker(op)) {
    ++statistics.worker_jobs;
    return;
  }
  mail_.take_back();
  ++statistics.worker_queue_full;
  move(op, place::at_hand);
  retry_later(op);
}

// A call that was allowed to block and could not go on all the same (a file with a lease, a device) is tried
// again, and then again after a while: nothing tells when it can.
void engine::worker_returned(io_operation& op, int res) noexcept {
  for_workers_.came_after(patience::now() - given_at_);
  move(op, place::at_hand);
  operation_links::marks& is = op.links.is;
  if (res != -EAGAIN || is.cancel_wanted || is.timed_out) return process(op, res, 0);
  (void)unready(op, *descriptors_.find(op.fd()));
  readiness const wants = op.faces().wants(op);
  if (wants == readiness::worker && is.pauses != 0) return retry_later(op);
  if (is.pauses == 0) is.pauses = 1;
  await_readiness(op, wants);
}

void engine::retry_later(io_operation& op) noexcept {
  operation_links::marks& is = op.links.is;
  int const milliseconds = detail::retry_ms(is.pauses);
  if (is.pauses < detail::retries_that_grow) ++is.pauses;
  retry_after(op, milliseconds);
}

void engine::retry_after(io_operation& op, int milliseconds) noexcept {
  operation_links& l = op.links;
  if (l.is.in_heap) deadlines_.remove(op);
  move(op, place::retrying);
  l.deadline_due = l.due;
  l.due = std::min(l.deadline_due, now() + std::int64_t{milliseconds} * 1'000'000);
  deadlines_.insert(op);
}

// Gives an operation that has yielded a value, or has paused, to the driver again.
void engine::restart(io_operation& op) noexcept {
  if (!never_waits(op)) return arm_again(op);
  if (perform_now(op)) return;
  op.set_outcome(-EAGAIN);
  settle(op, io_operation::value | io_operation::done);
}

void engine::after_value(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (!op.is_multishot()) return want_buffers(op); // only waits for the kernel to release it
  if (l.is.cancel_wanted || l.is.timed_out) {
    if (take_back(op)) process(op, -ECANCELED, 0);
    return;
  }
  if ((l.submitted() || l.is.where == place::yielded) && has_arrived(op)) return bring(op);
  if (what_follows(l.is.where, trigger::delivered) != reaction::rearm) return;
  move(op, place::at_hand);
  if (l.is.pauses != 0) return retry_after(op, detail::pause_ms(l.is.pauses));
  go_on_with(op);
}

// Delivers what has arrived, of which there may be more than one. If nothing may be lent now it waits for
// that without the kernel, which would go on reading.
void engine::bring(io_operation& op) noexcept {
  int const r = op.faces().perform(op, attempt::nonblocking);
  if (r > 0) { // bytes, of which complete() makes no more than one of many values
    op.set_outcome(r);
    op.links.is.pauses = 0;
    return settle(op, io_operation::value);
  }
  if (op.links.is.where == place::yielded) {
    move(op, place::at_hand);
    if (r != -EAGAIN) return process(op, r, 0);
    (void)unready(op, *descriptors_.find(op.fd()));
    return await_readiness(op);
  }
  if (r != -EAGAIN) return process(op, r, flag_more);
  (void)backend_->disarm(*this, op);
}

void engine::go_on_with(io_operation& op) noexcept {
  if (!has_arrived(op)) return restart(op);
  if (!perform_now(op)) await_readiness(op);
}

void engine::member_ended(io_operation& chain) noexcept {
  inside const here(*this);
  if (delivered_ > 0) --delivered_; // no receiver outside of the chain was notified
  if (chain.links.in_flight()) (void)perform_now(chain);
}

// Takes an operation back from wherever it waits. False: the kernel or a worker has it and will say when it
// ends.
bool engine::take_back(io_operation& op) noexcept {
  place const where = op.links.is.where;
  switch (what_follows(where, trigger::stop)) {
    case reaction::withdraw:
    case reaction::ask_kernel:
      if (!backend_->disarm(*this, op)) return false;
      break;
    case reaction::ask_worker:
      if (!take_from_workers(op)) return false;
      mail_.take_back();
      break;
    case reaction::leave:
      op.faces().resource->leave(op);
      break;
    case reaction::ask_member:
      return true; // by its decoder
    default:
      if (where == place::later) turn_.remove_later(op);
      break;
  }
  move(op, place::at_hand);
  return true;
}

void engine::cancel(io_operation& op) noexcept {
  if (inherited_by_fork()) return;
  inside const here(*this);
  // Also while no thread runs it yet: one may just be starting the operation.
  if (op.is_atomic() && (run_by() != runner::this_thread || is_elsewhere(op))) {
    if (shared_ != nullptr) return shared_->ask_to_end(op);
    if (op.ask(io_operation::request_cancel)) mail_.send(op);
    return;
  }
  operation_links& l = op.links;
  if (!l.in_flight() || l.is.cancel_wanted || !op.faces().interruptible) return;
  ++statistics.cancels;
  l.is.cancel_wanted = true;
  if (is_held(op)) return want_buffers(op);
  if (l.is.undelivered != 0 || is_notifying(op)) return; // after_value() sees to it
  if (take_back(op)) process(op, -ECANCELED, 0);
}

// A peer decides when the kernel releases the buffers of a value that was delivered. Once an operation is to
// end, the peer has a limited time.
void engine::want_buffers(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (!l.is.cancel_wanted || l.is.in_heap || op.faces().abort == nullptr) return;
  l.due = now() + detail::buffers_wanted_ns;
  deadlines_.insert(op);
}

void engine::expire_one(io_operation& op, std::int64_t now_ns) noexcept {
  operation_links& l = op.links;
  deadlines_.remove(op);
  if (is_held(op)) return op.faces().abort(op);
  reaction const due_now = what_follows(l.is.where, trigger::moment);
  if (due_now == reaction::rearm && l.deadline_due > now_ns) {
    move(op, place::at_hand);
    l.due = l.deadline_due;
    if (l.due != forever) deadlines_.insert(op);
    return restart(op);
  }
  if (due_now == reaction::perform) {
    move(op, place::at_hand);
    if (perform_now(op)) return;
  }
  ++statistics.timeouts;
  l.is.timed_out = true;
  if (l.is.undelivered != 0) return;
  if (!take_back(op)) return;
  // Bytes beat the deadline: whatever is there by now is taken.
  if (due_now != reaction::perform && perform_now(op)) return;
  process(op, -ECANCELED, 0);
}

// What ends here is delivered before what else is ready: a timer must not wait until a long queue has been
// served.
void engine::expire_first_ones() noexcept { expire_first_ones(bound(*this, turn_budget, forever)); }

void engine::expire_first_ones(bound const& b) noexcept {
  std::int64_t const now_ns = now();
  while (deadlines_.earliest() != nullptr && deadlines_.earliest()->links.due <= now_ns && b.take()) {
    io_operation& op = *deadlines_.earliest();
    expire_one(op, now_ns);
    turn_.hasten(op);
  }
}

io_status engine::poll(io_operation& op) noexcept {
  if (!op.started()) return io_status::not_started;
  inside const here(*this);
  if (!on_own_thread() || is_elsewhere(op)) return op.completed() ? io_status::completed : io_status::pending;
  operation_links& l = op.links;
  bool const awaits_grant = what_follows(l.is.where, trigger::granted) == reaction::perform;
  if (op.completed() && !awaits_grant) return io_status::completed; // one of many values may be known
  if (inherited_by_fork()) { // the parent's; this process has only a copy of its memory
    op.set_outcome(detail::native(error::inherited_by_fork));
    op.deliver(io_operation::value | io_operation::done);
    return io_status::completed;
  }
  turn_.renew();
  if (l.in_flight() && l.is.undelivered == 0) {
    if (l.is.in_heap && l.due <= now()) {
      expire_one(op, now());
    } else if (l.is.where == place::with_members) {
      poll_member(op.faces().member(op));
    } else if (awaits_grant) {
      if (op.faces().resource->is_granted(op)) granted(op);
    } else if (is_with_backend(l.is.where)) {
      look_at(op);
      // An attempt need not find what the kernel tells: that others have shut a Unix socket down.
      if (l.is.undelivered == 0 && ++looks_ % looks_per_question == 0) (void)reap(0);
    }
    take_messages();
  }
  if (l.is.undelivered == 0) return io_status::pending;
  deliver_now(op);
  return io_status::completed;
}

void engine::poll_member(io_operation& m) noexcept {
  if (!m.completed()) {
    (void)poll(m);
    return;
  }
  // Its value is known; the chain goes on once the kernel has released its buffers.
  if (m.links.is.undelivered == 0) look_at(m);
  if (m.links.is.undelivered != 0) deliver_now(m);
}

} // namespace unio::driver
