// A plain operation from its start to its result: it is tried, launched, processed, and lands. waits.cpp has
// what few need.

#include "core/pauses.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/recording.hpp"
#include "sys/descriptors.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

// Fast path for operations whose recent attempts all succeeded. It ends in one tail call; everything rare is
// in other functions.
void engine::start(io_operation& op) noexcept {
  if (op.is_atomic())
      [[unlikely]] // by another thread, perhaps, which must not look at anything of this one's
    return start_with_care(op);
  operation_faces const& f = op.faces();
  descriptor* const d = descriptors_.find_known(op.fd());
  if (f.perform_then != nullptr && d != nullptr && d->one_way(f.flow).is_sure() && open_ && turn_.is_free() &&
      !inherited_by_fork()) [[likely]] {
    ++statistics.started;
    return f.perform_then(op, &tried_bytes, this);
  }
  if (f.tries == inline_attempt::never && f.is_simple && d != nullptr && op.deadline().is_none() && open_ &&
      shared_ == nullptr && !inherited_by_fork()) { // the driver's from the start
    ++statistics.started;
    return launch_simply(op, *d, attempted::no);
  }
  begin(op, d);
}

void engine::start_with_care(io_operation& op) noexcept {
  if (!on_own_thread()) {
    if (shared_ != nullptr) return shared_->start_unclaimed(op);
    if (op.ask(io_operation::request_start)) mail_.send(op);
    return;
  }
  inside const here(*this);
  begin(op, nullptr);
}

inline bool engine::goes_with_others(io_operation const& op) noexcept {
  operation_faces const& f = op.faces();
  return f.goes_with_others != nullptr && backend_->prefers_batch(*this, op) && !is_only_tried(op) &&
         f.goes_with_others(op);
}

bool engine::worth_trying(io_operation const& op, descriptor& d) noexcept {
  operation_faces const& f = op.faces();
  bool const predicted = f.tries == inline_attempt::predicted;
  if (predicted && d.direction_of(op).is_ready()) [[likely]]
    return true;
  if (is_only_tried(op) || f.tries == inline_attempt::always) return true;
  return predicted && d.direction_of(op).worth_trying();
}

// `d`: what is known of its descriptor, or null.
void engine::begin(io_operation& op, descriptor* d) noexcept {
  operation_faces const& f = op.faces();
  ++statistics.started;
  if (!open_ || inherited_by_fork()) [[unlikely]]
    if (int const e = closing_ ? detail::native(error::multiplexer_destroyed) : ensure_bound(); e != 0)
      return fail(op, e);
  int const fd = op.fd();
  if (f.begin != nullptr) f.begin(op); // which may choose another descriptor
  if (d == nullptr || op.fd() != fd) d = descriptors_.find(op.fd());
  if (d == nullptr) [[unlikely]]
    return fail(op, -ENOMEM);

  bool const is_ready =
      f.tries == inline_attempt::predicted && f.flow != direction::either && d->one_way(f.flow).is_ready();
  if (!is_ready && !worth_trying(op, *d)) return launch(op, *d, attempted::no);
  if (goes_with_others(op)) return launch(op, *d, attempted::with_others);
  if (f.perform_then != nullptr && d->one_way(f.flow).is_sure())
    return f.perform_then(op, &tried_bytes, this);
  tried(op, *d, f.perform(op, attempt::nonblocking));
}

// The result of an operation that is not in flight is known: delivered at once, unless a receiver is running
// or others wait for their turn. `delivered`: called before the end of one that no loop delivers.
template <class Delivered>
[[gnu::always_inline]] inline void engine::settle_with(io_operation& op, Delivered delivered) noexcept {
  if (op.is_quiet() && turn_.take_quiet()) { // its coroutine is still running and will look
    ++statistics.finished;
    note_completion(op);
    note_delivery(op);
    delivered();
    op.mark_finished();
    return;
  }
  move(op, place::ready);
  op.links.is.undelivered = all_events;
  if (turn_.offer(op)) deliver_inline();
}

[[gnu::cold]] void engine::settle_recorded(io_operation& op) noexcept {
  record(recorded::completed, op);
  settle_with(op, [&] { record(recorded::delivered, op); });
}

[[gnu::always_inline]] inline void engine::settle_inline(io_operation& op) noexcept {
  if (is_recording()) [[unlikely]]
    return settle_recorded(op);
  settle_with(op, [] {});
}

// What an attempt on `d` has come to.
void engine::tried(io_operation& op, descriptor& d, int res) noexcept {
  descriptor* waits_on = nullptr;
  if (res != -EAGAIN) [[likely]] {
    ++statistics.inline_hits;
    d.direction_of(op).hit();
    if (has_value(op, res) || op.faces().complete(op, res, 0) == outcome::finished) [[likely]]
      return settle_inline(op);
    waits_on = descriptors_.find(op.fd());
  } else {
    ++statistics.inline_misses;
    waits_on = &unready(op, d);
  }
  if (is_only_tried(op)) return fail(op, -EAGAIN);
  launch(op, *waits_on, attempted::in_vain);
}

void engine::tried(io_operation& op, int res) noexcept { tried(op, *descriptors_.find(op.fd()), res); }

void engine::tried_bytes(io_operation& op, int res, void* engine_that_tried) noexcept {
  auto& self = *static_cast<engine*>(engine_that_tried);
  if (res <= 0) [[unlikely]]
    return self.tried(op, res);
  ++self.statistics.inline_hits;
  op.set_outcome(res);
  self.settle_inline(op);
}

// Ends an operation that is not in flight.
void engine::fail(io_operation& op, int code) noexcept {
  op.set_outcome(code);
  settle_inline(op);
}

void engine::unlist(io_operation& op, int fd) noexcept {
  operation_links& l = op.links;
  if (l.previous_on_handle != nullptr) {
    l.previous_on_handle->links.next_on_handle = l.next_on_handle;
  } else {
    descriptors_.find_listed(fd).in_flight = l.next_on_handle;
  }
  if (l.next_on_handle != nullptr) l.next_on_handle->links.previous_on_handle = l.previous_on_handle;
}

void engine::relist(io_operation& op, int old_fd) noexcept {
  if (op.fd() == old_fd || !op.links.in_flight()) [[likely]]
    return;
  unlist(op, old_fd);
  list(op, *descriptors_.find(op.fd()));
}

void engine::launch(io_operation& op, descriptor& d, attempted how) noexcept {
  if (!op.faces().is_simple || !op.deadline().is_none() || shared_ != nullptr)
    return launch_with_care(op, d, how);
  launch_simply(op, d, how);
}

// Of one that is_simple, has no deadline and no other threads.
void engine::launch_simply(io_operation& op, descriptor& d, attempted how) noexcept {
  take_off(op, d);
  sys::enter_flight(op.fd());
  op.links.due = forever;
  arm(op, how, op.faces().wants(op));
}

void engine::await_what_it_wants(io_operation& op, readiness wants) noexcept {
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

// An attempt on `d` would have waited. The operation learns which of its descriptors to wait on. That one,
// which is returned, learns that it is empty.
[[gnu::noinline]] descriptor& engine::unready(io_operation& op, descriptor& d) noexcept {
  int const fd = op.fd();
  op.faces().complete(op, -EAGAIN, 0);
  relist(op, fd);
  descriptor& waits_on = op.fd() == fd ? d : *descriptors_.find(op.fd());
  waits_on.missed(op);
  return waits_on;
}

bool engine::perform_now(io_operation& op) noexcept {
  int const r = op.faces().perform(op, attempt::nonblocking);
  if (r == -EAGAIN) return (void)unready(op, *descriptors_.find(op.fd())), false;
  op.faces().is_simple ? performed(op, r) : process(op, r, 0);
  return true;
}

// Of one that is_simple.
void engine::performed(io_operation& op, int res) noexcept {
  has_value(op, res) ? end_simply(op) : decode_simply(op, res);
}

[[gnu::noinline]] void engine::decode_simply(io_operation& op, int res) noexcept {
  outcome const o = op.faces().complete(op, res, 0);
  if (o == outcome::finished) [[likely]]
    return end_simply(op);
  decoded(op, o, 0);
}

// It may wait on another descriptor from now on.
[[gnu::noinline]] void engine::process(io_operation& op, int res, unsigned flags) noexcept {
  int const fd = op.fd();
  outcome const o = op.faces().complete(op, res, flags);
  relist(op, fd);
  decoded(op, o, flags);
}

void engine::decoded(io_operation& op, outcome o, unsigned flags) noexcept {
  operation_links& l = op.links;
  switch (o) {
    case outcome::finished:
      return settle(op, all_events);
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
      if (l.is.pauses < detail::pauses_that_grow) ++l.is.pauses;
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

inline void engine::land(io_operation& op) noexcept {
  move(op, place::landed);
  --in_flight_;
  unlist(op, op.fd());
}

// The result of an operation in flight is known, or its end: queues it to be delivered, from a loop.
void engine::settle(io_operation& op, unsigned events) noexcept {
  operation_links& l = op.links;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered | events);
  if (is_recording()) [[unlikely]]
    record(recorded::completed, op);
  if ((events & io_operation::done) == 0) {
    note_completion(op);
  } else {
    land(op);
    if (l.is.in_heap) deadlines_.remove(op);
    if (shared_ != nullptr) ++landed_;
    if (op.faces().for_each_descriptor != nullptr) --several_descriptors_;
  }
  if (l.is.queue == queue_name::none) turn_.push(op);
}

// The same for the end of one that is_simple: it calls no function, so it needs no registers of its caller's.
inline void engine::end_simply(io_operation& op) noexcept {
  if (is_watched_ || op.links.is.in_heap) [[unlikely]]
    return settle(op, all_events);
  op.links.is.undelivered = all_events;
  land(op);
  if (op.links.is.queue == queue_name::none) [[likely]]
    turn_.push(op);
}

} // namespace unio::driver
