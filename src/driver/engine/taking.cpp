// Operations of a thread that is away, which another one takes over.
//
// A thread that computes, in a receiver or outside of the engine, goes on with nothing. After a millisecond
// its operations in flight, and results that wait until its receiver has returned, are taken from it, if only
// the driver refers to them any more (io_operation::let_be_taken, which is the last that suspend(), say, does
// with one). Which of the other threads looks, and how often, says shared/waking.cpp.
//
// The lock (owners_lock.hpp). The engine's thread holds it while it is inside, also asleep, and not around
// receivers and posted work, unless the engine has nothing that could be taken: then it keeps the lock until
// the receiver uses the engine. So what another thread does with the engine is what a receiver might do, and
// every loop of the engine is made for that.
//
// With epoll any thread may wait for an operation. A ring with deferred task work does nothing for what waits
// in it before its thread enters; the thread then has the kernel forget what was taken before anything else
// (backend::release). So no more is taken than fits into its submission queue, nothing while the ring holds
// completions or entries, and nothing that the kernel may perform by itself. That is why a ring of several
// threads is asked to say when a connection can be accepted, and not to accept it: those that wait to accept
// are woken one at a time, and the one that was forgotten would be.
//
// An end that waits for another thread's request (delivery.cpp) is taken as soon as that has come.
//
// What is with a worker, waits for a buffer or for members of a chain, reads of files, and operations whose
// form is not atomic stay.

#include "driver/engine/rooms.hpp"

namespace unio::inline v0_1::driver {

// Something that its thread would go on with.
bool engine::has_news() const noexcept {
  return turn_.has_results() || mail_.has_messages() || backend_->has_unsubmitted() || next_due() <= now() ||
         backend_->has_news();
}

// What the kernel does not know, or has been asked only to say when it may be tried. Of what it is to
// perform, what its operation says. Nothing for which it chooses a buffer, or of which it keeps one.
bool engine::can_be_taken(io_operation const& op) noexcept {
  operation_links::marks const& is = op.links.is;
  operation_faces const& f = op.faces();
  if (is.undelivered != 0 || is.cancel_wanted || is.timed_out || is.asked_back) return false;
  switch (is.where) {
    case place::timed:
      return true;
    case place::in_kernel:
      return f.can_be_taken && !op.is_multishot() && !is_file(op.kind());
    case place::to_try:
    case place::to_submit:
    case place::to_poll:
    case place::polled:
    case place::parked:
    case place::later:
      return f.resource == nullptr && !f.lends_buffers;
    default:
      return false;
  }
}

bool engine::release(io_operation& op) noexcept {
  if (op.links.is.where == place::later) {
    turn_.remove_later(op);
    return true;
  }
  return op.links.is.where == place::timed || backend_->release(op);
}

namespace {

bool is_result_for_others(io_operation const& op) noexcept {
  return (op.links.is.undelivered & io_operation::done) != 0 && op.may_be_taken();
}

} // namespace

void engine::give_what_waits(operation_queue& batch, io_operation const* only) noexcept {
  auto const is_wanted = [only](io_operation const& op) { return only == nullptr || &op == only; };
  turn_.take_results([&](io_operation const& op) { return is_wanted(op) && is_result_for_others(op); },
                     [&](io_operation& op) { give_away(op, batch); });
  descriptors_.for_each([&](descriptor& d) {
    int fd = -1;
    for (io_operation *op = oldest_on(d), *next; op != nullptr; op = next) {
      next = op->links.previous_on_handle;
      if (!is_wanted(*op) || !op->may_be_taken() || !can_be_taken(*op) || !release(*op)) continue;
      fd = op->fd();
      give_away(*op, batch);
    }
    if (fd >= 0 && d.in_flight == nullptr) unregister(d, fd); // or it would be woken for what others read
  });
}

bool engine::has_some_for_others() noexcept {
  if (!open_ || leaves_ || leaving_ != nullptr) return false;
  if (deferred_ != 0 || turn_.find_result(is_result_for_others) != nullptr) return true;
  if (in_flight_ == 0) return false;
  bool any = false;
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation* op = d.in_flight; op != nullptr && !any; op = op->links.next_on_handle)
      any = op->may_be_taken() && can_be_taken(*op);
  });
  return any;
}

// Or only the one that is given, if it is there.
engine::found engine::take_from(engine& away, io_operation const* only) noexcept {
  if (!away.inside_.try_take())
    return away.keeps_lock_.load(std::memory_order_seq_cst) ? found::nothing : found::its_thread;
  operation_queue taken(queue_name::none);
  found what = away.has_some_for_others() ? found::waits : found::nothing;
  if (what == found::waits && away.has_news()) {
    shared_->unclaimed->move_between([&] {
      operation_queue batch(queue_name::unclaimed);
      auto const adopt_all = [&] {
        while (io_operation* const op = batch.pop()) {
          move(*op, place::at_hand);
          adopt(*op, *this);
          taken.push(*op);
        }
      };
      away.give_what_waits(batch, only);
      adopt_all();
      away.pass_on_messages(batch, only);
      adopt_all();
    });
  }
  away.inside_.give_back();
  if (!taken.empty()) what = found::taken;
  while (io_operation* const op = taken.pop()) take_over(*op);
  return what;
}

// Of other threads, for what was taken: their engine finds them with the operation. One whose end has waited
// for its message goes as well. The others are left again.
void engine::pass_on_messages(operation_queue& batch, io_operation const* only) noexcept {
  for (io_operation *op = mail_.take_messages(), *next; op != nullptr; op = next) {
    next = op->next_message();
    bool const waits = op->links.is.where == place::idle && op->links.is.undelivered != 0;
    if (!is_elsewhere(*op) && waits && (only == nullptr || only == op) && op->may_be_taken()) {
      (void)op->take_requests();
      --deferred_;
      give_away(*op, batch); // counts it again
      --landed_;
      shared_->counts.end(1);
    } else if (!is_elsewhere(*op)) {
      mail_.leave(*op);
    } else if ((op->take_requests() & io_operation::request_cancel) != 0) {
      op->keep_request(io_operation::request_cancel);
    }
  }
}

} // namespace unio::driver
