// From the backend to the result: an operation is armed, decoded, tried again, taken back, due.

#include "core/pauses.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/workers.hpp"
#include "sys/descriptors.hpp"

#include <algorithm>
#include <cerrno>

namespace unio::inline v0_1::driver {

using detail::pauses_that_grow;
using detail::retries_that_grow;

namespace {

// Its value was delivered, and the kernel still has its buffers.
bool is_held(io_operation const& op) noexcept { return op.completed() && !op.is_multishot(); }

} // namespace

void engine::list(io_operation& op, descriptor& d) noexcept {
  operation_links& l = op.links;
  l.previous_on_handle = nullptr;
  l.next_on_handle = d.in_flight;
  if (d.in_flight != nullptr) d.in_flight->links.previous_on_handle = &op;
  d.in_flight = &op;
}

void engine::unlist(io_operation& op, descriptor& d) noexcept {
  operation_links& l = op.links;
  if (l.previous_on_handle != nullptr) {
    l.previous_on_handle->links.next_on_handle = l.next_on_handle;
  } else {
    d.in_flight = l.next_on_handle;
  }
  if (l.next_on_handle != nullptr) l.next_on_handle->links.previous_on_handle = l.previous_on_handle;
}

void engine::launch(io_operation& op, descriptor& d, attempted how) noexcept {
  operation_links& l = op.links;
  move(op, place::at_hand);
  ++in_flight_;
  if (shared_ != nullptr) shared_->count(1);
  list(op, d);
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
  backend_->arm(*this, op, how, wants);
}

void engine::land(io_operation& op) noexcept {
  operation_links& l = op.links;
  move(op, place::landed);
  --in_flight_;
  if (shared_ != nullptr) ++landed_;
  unlist(op, *descriptors_.find(op.fd()));
  if (l.is.in_heap) deadlines_.remove(op);
  if (op.faces().for_each_descriptor != nullptr) --several_descriptors_;
}

// For the threads that close its descriptors an operation is in flight until its receiver is about to be
// notified.
void engine::leave_flight(io_operation& op) noexcept {
  move(op, place::idle);
  op.for_each_descriptor(&sys::leave_flight);
}

void engine::process(io_operation& op, int res, unsigned flags) noexcept {
  operation_links& l = op.links;
  int const fd = op.fd();
  outcome const o = op.faces().complete(op, res, flags);
  relist(op, fd);
  switch (o) {
    case outcome::finished:
      return settle(op, io_operation::value | io_operation::done);
    case outcome::released:
      return settle(op, io_operation::done);
    case outcome::holding:
      if (l.is.in_heap) deadlines_.remove(op); // its deadline was met
      return settle(op, io_operation::value);
    case outcome::more:
      l.is.pauses = 0;
      if ((flags & flag_more) == 0) move(op, place::yielded);
      return settle(op, io_operation::value);
    case outcome::pause: {
      bool const first = l.is.pauses == 0;
      if (l.is.pauses < pauses_that_grow) ++l.is.pauses;
      if ((flags & flag_more) == 0) move(op, place::yielded);
      if (first) return settle(op, io_operation::value);
      return after_value(op);
    }
    case outcome::pending:
      return;
    case outcome::again:
      if (l.is.cancel_wanted || l.is.timed_out) return process(op, -ECANCELED, 0);
      return await_readiness(op);
  }
}

void engine::member_ended(io_operation& chain) noexcept {
  if (delivered_ > 0) --delivered_; // no receiver outside of the chain was notified
  if (chain.links.in_flight()) (void)perform_now(chain);
}

bool engine::perform_now(io_operation& op) noexcept {
  int const r = op.faces().perform(op, attempt::nonblocking);
  if (r == -EAGAIN) return (void)unready(op, *descriptors_.find(op.fd())), false;
  process(op, r, 0);
  return true;
}

// An attempt on `d` would have waited. The operation learns which of its descriptors to wait on. That one,
// which is returned, learns that it is empty.
descriptor& engine::unready(io_operation& op, descriptor& d) noexcept {
  int const fd = op.fd();
  op.faces().complete(op, -EAGAIN, 0);
  relist(op, fd);
  descriptor& waits_on = op.fd() == fd ? d : *descriptors_.find(op.fd());
  waits_on.missed(op);
  return waits_on;
}

void engine::relist(io_operation& op, int old_fd) noexcept {
  if (op.fd() == old_fd || !op.links.in_flight()) [[likely]]
    return;
  unlist(op, *descriptors_.find(old_fd));
  list(op, *descriptors_.find(op.fd()));
}

void engine::await_readiness(io_operation& op, readiness wants) noexcept {
  switch (wants) {
    case readiness::time:
      return; // the deadline queue has it
    case readiness::nothing:
      return perform_later(op);
    case readiness::retry:
      return retry_later(op);
    case readiness::worker:
      return to_worker(op);
    case readiness::resource:
      return enqueue(op);
    case readiness::readable:
    case readiness::writable:
    case readiness::exceptional:
      return backend_->park(*this, op);
  }
}

void engine::enqueue(io_operation& op) noexcept {
  if (!op.faces().resource->enqueue(op)) return perform_later(op);
  ++statistics.resource_waits;
  move(op, place::queued);
}

// What was posted with it is what calls this, or is taken back.
void engine::granted(io_operation& op) noexcept {
  op.faces().resource->leave(op);
  move(op, place::at_hand);
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
  if (op.faces().wants(op) == readiness::worker && is.pauses != 0) return retry_later(op);
  if (is.pauses == 0) is.pauses = 1;
  await_readiness(op);
}

void engine::retry_later(io_operation& op) noexcept {
  operation_links::marks& is = op.links.is;
  int const milliseconds = detail::retry_ms(is.pauses);
  if (is.pauses < retries_that_grow) ++is.pauses;
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
  // Also while no thread runs it yet: one may just be starting the operation.
  if (op.is_atomic() && (run_by() != runner::this_thread || is_elsewhere(op))) {
    if (shared_ != nullptr) return shared_->unclaimed->ask_to_end(op);
    if (op.ask(io_operation::request_cancel)) mail_.send(op);
    return;
  }
  operation_links& l = op.links;
  if (!l.in_flight() || l.is.cancel_wanted || !op.faces().interruptible) return;
  ++statistics.cancels;
  l.is.cancel_wanted = true;
  if (is_held(op)) return want_buffers(op);
  if (l.is.undelivered != 0 || turn_.is_notifying(op)) return; // after_value() sees to it
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
void engine::expire(bound const& b) noexcept {
  if (deadlines_.earliest() == nullptr) return;
  std::int64_t const now_ns = now();
  while (deadlines_.earliest() != nullptr && deadlines_.earliest()->links.due <= now_ns && b.take()) {
    io_operation& op = *deadlines_.earliest();
    expire_one(op, now_ns);
    turn_.hasten(op);
  }
}

} // namespace unio::driver
