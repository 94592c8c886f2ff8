// Operations that are destroyed in flight, and descriptors that are closed. The kernel gives back what it has
// of them; until then no other receiver runs, and nothing that was posted: it might destroy what is being
// destroyed. Others go on only where they may be what the end depends on (may_take_long).

#include "driver/engine/rooms.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

namespace unio::inline v0_1::driver {
namespace {

// A worker or a device has it, or a peer its bytes: it may be a receiver of this thread that opens the other
// end of a pipe, say, or reads.
bool may_take_long(io_operation const& op) noexcept {
  operation_links::marks const& is = op.links.is;
  if (is.where == place::with_members) return may_take_long(op.faces().member(const_cast<io_operation&>(op)));
  return op.links.in_flight() && (is.wants == readiness::worker || is_held(op));
}

} // namespace

// Takes in what the kernel, workers, other threads and moments bring, and sleeps until there is something.
// `alone`: no other receiver runs until then, so what was ready before does not keep it awake. A wake() is
// for a run() that follows.
void engine::take_in(bool alone) noexcept {
  if (ensure_bound() != 0) return sys::pause();
  bool const outer_call = be_in_call(true);
  bool woken = false;
  turn_.aside([&] {
    take_posted();
    woken = mail_.take_wake();
    if (alone) known_results_ = turn_.results();
    bool const goes_on = turn_.has_later() || (!alone && (turn_.has_ready() || any_posted_here() != 0));
    (void)fetch_apart(bound(*this, -1, forever), goes_on ? 0 : next_due(), false);
    known_results_ = -1;
    expire();
  });
  (void)be_in_call(outer_call);
  if (woken) pass_wake_on();
  if (fails_) sys::pause();
}

// Its own result, or that of the member it waits for.
io_operation* engine::result_of(io_operation& op) noexcept {
  if (turn_.has_result_of(op)) return &op;
  return op.links.is.where == place::with_members ? result_of(op.faces().member(op)) : nullptr;
}

void engine::abandon(io_operation& op) noexcept {
  if (inherited_by_fork()) return;
  inside const here(*this);
  cancel(op);
  for (unsigned times = 0; !op.finished(); ++times) {
    if (is_elsewhere(op)) return op.multiplexer()->abandon(op); // another thread has given it away
    if (on_own_thread()) break;
    wait_for_its_thread(op, times);
  }
  if (op.finished()) return;
  if (is_notifying(op) && op.links.is.undelivered == 0) after_value(op); // not once its receiver has returned
  ++statistics.abandoned;
  // Another thread may take its result while this one is in another receiver, and ends it then.
  auto const is_over = [&] { return op.finished() || is_elsewhere(op) || inherited_by_fork(); };
  while (!is_over()) {
    turn_.queue_next_inline();
    if (io_operation* const one = result_of(op); one != nullptr) { // no receiver is notified
      int const counted = delivered_;
      deliver_now(*one);
      delivered_ = counted;
    } else {
      bool const alone = !may_take_long(op);
      if (!alone) go_on();
      if (!is_over() && result_of(op) == nullptr) take_in(alone);
    }
  }
  if (is_elsewhere(op) && !op.finished()) op.multiplexer()->abandon(op);
}

void engine::cancel_all_on(int fd) noexcept {
  auto const cancel_in = [&](descriptor& d) {
    for (io_operation *op = d.in_flight, *next; op != nullptr; op = next) {
      next = op->links.next_on_handle;
      if (uses(*op, fd)) cancel(*op);
    }
  };
  if (descriptor* const d = descriptors_.find(fd); d != nullptr) cancel_in(*d);
  if (several_descriptors_ != 0) descriptors_.for_each(cancel_in);
}

// One of those in flight on it of which `is_wanted`, or null.
template <class IsWanted> io_operation* engine::find_in_flight(int fd, IsWanted is_wanted) noexcept {
  io_operation* first = nullptr;
  auto const look = [&](descriptor const& d) {
    for (io_operation* op = d.in_flight; op != nullptr && first == nullptr; op = op->links.next_on_handle)
      if (uses(*op, fd) && is_wanted(*op)) first = op;
  };
  if (descriptor const* const d = descriptors_.find(fd); d != nullptr) look(*d);
  if (first == nullptr && several_descriptors_ != 0) descriptors_.for_each(look);
  return first;
}

// Its receivers are notified before the descriptor goes. Only they: those of others may close handles as
// well, and would be nested in each other without bound.
void engine::forget_here(int fd) noexcept {
  if (inherited_by_fork()) return;
  using asks = bool (*)(io_operation const&) noexcept; // one find_in_flight() for all
  asks const any = [](io_operation const&) noexcept { return true; }, takes_long = &may_take_long,
             is_made_of_others = &has_members;
  auto const is_here = [fd](io_operation const& op) {
    return op.links.is.where != place::ready && uses(op, fd);
  };
  bool is_first = true;
  while (sys::in_flight(fd) != 0 && !inherited_by_fork()) { // or all have ended, and not all are notified
    bool const has_some = in_flight_ != 0 && find_in_flight(fd, any) != nullptr;
    if (has_some) cancel_all_on(fd); // receivers may have started more
    // A receiver may close the handle while it is notified of one of many values: the end cannot wait for it
    // to return.
    if (has_some && std::exchange(is_first, false))
      for (notification const* n = notifying_; n != nullptr; n = n->outer())
        if (n->op() != nullptr && n->op()->links.is.undelivered == 0 && uses(*n->op(), fd))
          after_value(*n->op());
    turn_.queue_next_inline();
    io_operation* one = turn_.find_result(is_here);
    if (one == nullptr && !has_some) break;
    if (one == nullptr) {
      io_operation* const whole = find_in_flight(fd, is_made_of_others);
      if (whole != nullptr) one = result_of(*whole);
    }
    if (one != nullptr) {
      deliver_now(*one);
    } else {
      bool const alone = find_in_flight(fd, takes_long) == nullptr;
      if (!alone) go_on();
      if (alone || (find_in_flight(fd, takes_long) != nullptr && !turn_.has_results())) take_in(alone);
    }
  }
  if (descriptor* const d = descriptors_.find(fd); d != nullptr) unregister(*d, fd);
}

void engine::unregister(descriptor& d, int fd) noexcept {
  if (!d.registered) return;
  backend_->unregister(fd, d);
  d.registered = false;
  d.reading = d.writing = predictor();
}

void engine::forget(int fd) noexcept {
  if (inherited_by_fork()) return;
  if (on_own_thread()) {
    inside const here(*this);
    return forget_here(fd);
  }
  if (sys::in_flight(fd) != 0) registry::forget_in_all(fd);
}

} // namespace unio::driver
