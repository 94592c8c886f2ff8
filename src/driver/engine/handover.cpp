// Operations that come from another thread, and go to one.
//
//   in flight ──taken back──► unclaimed ──► take_over, by one engine for all that were given away together
//       │                         ▲
//       └─ the kernel has done it ┘ with its result, which its receiver gets there
//
// A thread that ends gives away all that its engine has (hand_over). First, in turns as always, what no other
// thread can go on with ends as canceled: chains, and sends whose buffers the kernel has. From then on no
// receiver is called, with one exception: the second value of an operation that yields many can be taken from
// the ring only when the first was delivered. The engine asks the kernel to cancel the others and waits for
// each final completion, because only that says whether an operation was done or comes back. Jobs that no
// worker has begun come back too; the engine waits for those that one has.
//
// All becomes unclaimed as one group, which one engine takes in its order: plain operations of a connection
// must not come to two threads. What was posted and forked becomes everybody's. Destructors of the thread
// that run later may run the multiplexer again; then the last thing that the thread does is to hand over once
// more (shared/members.cpp).
//
// The engine that takes over an operation whose descriptor is being closed ends it: it may have answered the
// closing thread before.

#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/registry.hpp"
#include "driver/shared/unclaimed.hpp"
#include "driver/workers.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

namespace {

bool is_being_closed(io_operation const& op) noexcept {
  bool found = false;
  op.for_each_descriptor([&](int fd) { found = found || sys::is_awaited(fd); });
  return found;
}

bool is_with_kernel_and_has_value(io_operation const& op) noexcept {
  return op.links.submitted() && op.links.is.undelivered != 0;
}

} // namespace

// It is counted as pending and in flight already, and its moment is known.
void engine::take_over(io_operation& op) noexcept {
  operation_links& l = op.links;
  ++statistics.started;
  descriptor* const d = descriptors_.find(op.fd());
  int const e = d == nullptr ? -ENOMEM
                : closing_   ? detail::native(error::multiplexer_destroyed)
                             : ensure_bound();
  if (e != 0) [[unlikely]] {
    op.set_outcome(e);
    l.is.undelivered = all_events;
  }
  if ((l.is.undelivered & io_operation::done) != 0) { // only its receiver is still to be notified
    move(op, place::landed);
    ++landed_;
    return turn_.push(op);
  }
  ++in_flight_;
  list(op, *d);
  op.for_each_descriptor([this](int fd) { descriptors_.find(fd); });
  if (op.faces().for_each_descriptor != nullptr) ++several_descriptors_;
  if (l.due != forever) deadlines_.insert(op);
  // The thread that closes its descriptor may have asked this engine already.
  if (op.has_request(io_operation::request_cancel) || is_being_closed(op)) l.is.cancel_wanted = true;
  if (l.is.undelivered != 0) { // it goes on after that
    move(op, place::yielded);
    return turn_.push(op);
  }
  if (l.is.cancel_wanted && op.faces().interruptible && !has_members(op)) return process(op, -ECANCELED, 0);
  if (never_waits(op) || has_arrived(op)) return go_on_with(op);
  readiness const wants = op.faces().wants(op);
  if (wants == readiness::time) return move(op, place::timed);
  if (!has_members(op) && !worth_trying(op, *d)) return arm(op, attempted::no, wants);
  if (perform_now(op)) return;
  if (!has_members(op)) return arm(op, attempted::in_vain, op.faces().wants(op));
  move(op, place::with_members);
  if (!l.is.cancel_wanted) return;
  l.is.cancel_wanted = false;
  cancel(op);
}

// ---- a thread ends ----------------------------------------------------------------------------------------

// Until nothing is with the kernel or with a worker. Each round takes back what it can, and the final
// completion of an operation says whether it was done, or comes back.
void engine::hand_over() noexcept {
  if (!open_ || inherited_by_fork()) return;
  leaves_ = true;
  end_what_stays();
  gives_away_ = true;
  for (bool again = false;; again = true) {
    take_messages();
    if (!ask_for_all_back(again)) break;
    if (reap(forever) < 0) {
      gives_away_ = false; // close() cancels
      return;
    }
  }
  open_ = false;
  operation_queue batch(queue_name::unclaimed);
  give_away_all(batch);
  shared_->unclaimed->add_all(batch, *this); // from here on they may be destroyed
  count_landed();
  give_away_posted();
  sys::tell_closing_threads(); // which may wait for one that was asked of this engine
}

bool engine::ask_for_all_back(bool again) noexcept {
  bool any = false;
  io_operation* blocks = nullptr;
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation* op = d.in_flight; op != nullptr; op = op->links.next_on_handle) {
      any = ask_back(*op) || any;
      if (is_with_kernel_and_has_value(*op)) blocks = op;
    }
  });
  if (!again || blocks == nullptr) return any;
  // What has come after its value can be taken only once that is delivered.
  operation_links& l = blocks->links;
  if (l.is.queue == queue_name::to_cancel) return any;
  if (l.is.queue == queue_name::none) turn_.push(*blocks);
  l.is.asked_back = false;
  deliver_now(*blocks); // it may be destroyed, and others started
  return ask_for_all_back(false);
}

// Whether the kernel or a worker has it.
bool engine::ask_back(io_operation& op) noexcept {
  operation_links& l = op.links;
  switch (what_follows(l.is.where, trigger::stop)) {
    case reaction::ask_kernel:
      // Also one that is to end anyway: that may wait until its receiver has been notified (after_value).
      if (op.faces().interruptible && !l.is.asked_back) {
        if (l.is.undelivered != 0) turn_.remove(op); // it is in one queue at a time
        l.is.asked_back = true;
        if (backend_->disarm(*this, op)) {
          came_back(op);
          return false;
        }
      }
      return true;
    case reaction::ask_worker:
      return !take_back(op);
    default:
      break;
  }
  if (l.is.where == place::at_hand || l.is.where == place::yielded) return false;
  if (l.is.where == place::retrying) l.due = l.deadline_due;
  l.is.asked_back = false;
  (void)take_back(op);
  if (l.is.in_heap) deadlines_.remove(op);
  return false;
}

void engine::came_back(io_operation& op) noexcept {
  op.links.is.asked_back = false;
  if (op.links.is.undelivered != 0) move(op, place::yielded);
  if (op.faces().given_back != nullptr) op.faces().given_back(op);
}

// What has ended counts as pending, and as in flight on its descriptors, until it is delivered.
void engine::give_away(io_operation& op, operation_queue& batch) noexcept {
  operation_links& l = op.links;
  if (l.in_flight()) {
    --in_flight_;
    unlist(op, op.fd());
    if (l.is.in_heap) deadlines_.remove(op);
    if (op.faces().for_each_descriptor != nullptr) --several_descriptors_;
    if (has_arrived(op)) backend_->leave_what_arrived();
    if (l.is.where != place::at_hand) move(op, place::at_hand);
  } else if (l.is.where == place::landed) {
    --landed_;
  } else {
    shared_->counts.begin(1);
    op.for_each_descriptor(&sys::enter_flight);
    if (l.is.where == place::idle) move(op, place::at_hand);
  }
  move(op, place::unclaimed);
  batch.push(op);
}

// Results first, in their order; then what waits, in the order in which it was started on its descriptor.
void engine::give_away_all(operation_queue& batch) noexcept {
  while (io_operation* const op = turn_.take_result()) give_away(*op, batch);
  if (in_flight_ == 0) return;
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation *op = oldest_on(d), *next; op != nullptr; op = next) {
      next = op->links.previous_on_handle;
      give_away(*op, batch);
    }
  });
}

void engine::take_last_messages(operation_queue& batch) noexcept {
  for (io_operation* op = mail_.take_messages(); op != nullptr;) {
    io_operation* const next = op->next_message();
    if ((op->take_requests() & io_operation::request_cancel) != 0)
      op->keep_request(io_operation::request_cancel);
    if (op->links.is.where == place::idle && op->links.is.undelivered != 0) { // its end waited for this
      --deferred_;
      give_away(*op, batch);
    }
    op = next;
  }
}

// What is about this engine is dropped with it.
void engine::give_away_posted() noexcept {
  take_posted();
  posted_now_.append(posted_here_);
  while (work* const w = posted_now_.pop()) {
    if (in_registry_.is(*w)) {
      (*w)(false);
    } else {
      shared_->give_work(*w);
    }
  }
}

void engine::rest() noexcept {
  wait_for_others();
  if (mail_.take_wake()) shared_->give_wake(); // it slept for what it had to get back, and not in a run()
  backend_.reset();
  leaving_.reset();
  mail_.bell.replace(-1);
  descriptors_.for_each([](descriptor& d) {
    d = {.in_flight = d.in_flight, .generation = d.generation, .reading = {}, .writing = {}};
  });
  // No thread's, and not the first one's that comes: what another thread asks of an operation that was handed
  // over may still come here.
  owner_.store(this, std::memory_order_relaxed);
}

void engine::open_again(std::unique_ptr<backend> b) noexcept {
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  inside const here(*this);
  backend_ = std::move(b);
  mail_.bell.replace(backend_->give_doorbell());
  statistics = {};
  closing_ = bound_ = open_ = leaves_ = gives_away_ = false;
  bind_error_ = 0;
  delivered_ = 0;
  notified_end_ = took_wake_ = false;
  turn_.forget_holds(); // of the thread that has ended
  turn_.begin();
  turn_.fetched();
  (void)mail_.take_wake();
  registry::enlist(in_registry_);
}

} // namespace unio::driver
