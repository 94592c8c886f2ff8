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
// What was ready before does not keep it awake. A wake() is for a run() that follows.
void engine::take_in() noexcept {
  if (ensure_bound() != 0) return sys::pause();
  bool const outer_call = be_in_call(true);
  bool woken = false;
  turn_.aside([&] {
    take_posted();
    woken = mail_.take_wake();
    known_results_ = turn_.results();
    fails_ = reap(turn_.has_later() ? 0 : next_due()) < 0;
    known_results_ = -1;
    take_messages();
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
    } else if (may_take_long(op)) {
      reach([&] { return is_over() || !may_take_long(op); });
    } else {
      take_in();
    }
  }
  if (is_elsewhere(op) && !op.finished()) op.multiplexer()->abandon(op);
}

void engine::cancel_all_on(int fd) noexcept {
  descriptor* const d = descriptors_.find(fd);
  if (d == nullptr) return;
  for (io_operation* op = d->in_flight; op != nullptr;) {
    io_operation* const next = op->links.next_on_handle;
    if (op->fd() == fd) cancel(*op);
    op = next;
  }
  if (several_descriptors_ == 0) return;
  descriptors_.for_each([&](descriptor& other) {
    for (io_operation* op = other.in_flight; op != nullptr;) {
      io_operation* const next = op->links.next_on_handle;
      if (op->fd() != fd && uses(*op, fd)) cancel(*op);
      op = next;
    }
  });
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
  auto const any = [](io_operation const&) { return true; };
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
    if (one == nullptr)
      (void)find_in_flight(fd, [&](io_operation& op) { return (one = result_of(op)) != nullptr; });
    if (one != nullptr) {
      deliver_now(*one);
    } else if (find_in_flight(fd, may_take_long) != nullptr) {
      reach([&] {
        cancel_all_on(fd);
        return find_in_flight(fd, may_take_long) == nullptr;
      });
    } else {
      take_in();
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
