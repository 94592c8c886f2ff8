// A turn; the backend, and another one in its place.

#include "driver/choose.hpp"
#include "driver/engine/rooms.hpp"

#include <unio/detail/promise.hpp>

#include <algorithm>

namespace unio::inline v0_1::driver {

int engine::reap(std::int64_t until) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    until = std::min(reap_leaving(until), until != 0 ? next_due() : 0);
  int const e = backend_->reap(*this, until);
  return e >= 0 ? e : change_backend(e);
}

// The backend may not go on (a seccomp filter that came later, say): epoll takes its place. What the kernel
// has not begun is armed again there. What it may have begun is never performed again, and its memory is the
// kernel's until the old one says that the kernel holds nothing any more.
int engine::change_backend(int why) noexcept {
  std::unique_ptr<backend> next = backend_after(*backend_, why, mail_.bell.fd());
  if (next == nullptr) return why;
  backend_->leave(*this);
  leaving_ = std::move(backend_);
  backend_ = std::move(next);
  if (int const b = backend_->bind(*this); b != 0) return b;
  bool any_stays = false;
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation* op = d.in_flight; op != nullptr;) {
      io_operation* const following = op->links.next_on_handle;
      operation_links& l = op->links;
      bool const stays = l.submitted();
      if (what_follows(l.is.where, trigger::driver_lost) == reaction::rearm) {
        move(*op, place::at_hand);
        if (l.is.undelivered != 0) { // armed after its receiver has been notified
          move(*op, place::yielded);
        } else if (l.is.cancel_wanted || l.is.timed_out) {
          process(*op, -ECANCELED, 0);
        } else {
          go_on_with(*op);
        }
      }
      any_stays = any_stays || stays;
      op = following;
    }
  });
  if (!any_stays) leaving_.reset();
  return 0;
}

// Nothing wakes this thread when the kernel is done with what the backend before had: it looks now and then.
std::int64_t engine::reap_leaving(std::int64_t until) noexcept {
  constexpr std::int64_t between_looks_ns = 5'000'000;
  bool const gone = leaving_->has_left(*this);
  if (gone) leaving_.reset();
  if (turn_.has_ready()) return 0;
  return gone || until == 0 ? until : std::min(until, now() + between_looks_ns);
}

void engine::look_at(io_operation& op) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    (void)reap_leaving(0);
  if (op.links.is.undelivered != 0) return;
  if (int const e = backend_->look_at(*this, op); e < 0) (void)change_backend(e);
}

unio::capabilities engine::capabilities() const {
  unio::capabilities c;
  backend_->describe(c);
  c.why = why_this_driver(backend_->why_no_ring());
  return c;
}

// Takes in all that the kernel has; with `timers`, what is due meanwhile is delivered in between. Returns 0
// or a negative native code.
int engine::fetch(bound const& b, std::int64_t until, bool timers) noexcept {
  int r = reap(until);
  for (int calls = 1; r > 0 && calls != calls_per_turn && !b.is_over(); ++calls) {
    take_messages();
    if (timers) {
      expire(bound(*this, turn_budget, forever));
      serve_due(b);
    }
    r = reap(0);
  }
  fails_ = r < 0;
  if (fails_) return r;
  take_messages();
  turn_.fetched();
  return 0;
}

// Called by a receiver or by posted work: the run() further up learns what was delivered. It would sleep
// otherwise, though what it was to wait for has come.
template <class Call> result<int> engine::within_turn(Call call) noexcept {
  if (!turn_.is_delivering()) [[likely]] {
    turn_.begin();
    return call();
  }
  turn_.queue_next_inline();
  int const counted = std::exchange(delivered_, 0);
  bool const ended = notified_end_;
  result<int> const r = call();
  delivered_ += counted + std::max(r.has_value() ? *r : 0, 0);
  notified_end_ = notified_end_ || ended;
  return r;
}

result<int> engine::do_complete_io(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  return within_turn([&]() noexcept -> result<int> {
    bound const b(*this, max_items, until);
    take_messages();
    if (!is_idle()) {
      if (int const e = fetch(b, 0, false); e != 0) return detail::to_error_code(e);
      serve(b, turn_budget / 2, false);
      count_landed();
    }
    int const n = take_delivered();
    return n != 0 ? n : is_done() ? 0 : -1;
  });
}

result<int> engine::do_timeout_io(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  return within_turn([&]() noexcept -> result<int> {
    if (shared_ != nullptr) claim();
    expire(bound(*this, max_items, until));
    turn_.fetched();
    serve(bound(*this, max_items, until), std::numeric_limits<int>::max(), false);
    count_landed();
    int const n = take_delivered();
    return n != 0 ? n : is_done() ? 0 : -1;
  });
}

result<int> engine::do_invoke_posted(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  turn_.renew();
  return run_posted(bound(*this, max_items, until), std::numeric_limits<int>::max());
}

result<int> engine::do_run(int max_items, std::int64_t until) noexcept {
  bool const outer = took_wake_;
  result<int> const r = run_turns(max_items, until);
  took_wake_ = outer; // what this has taken was for its caller
  return r;
}

result<int> engine::run_turns(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  bool const outer = turn_.is_delivering();
  result<int> const r = within_turn([&]() noexcept { return turns(max_items, until); });
  if (outer && r.has_value() && *r < 0) notified_end_ = true; // it was woken, say: so is the run() further up
  return r;
}

result<int> engine::turns(int max_items, std::int64_t until) noexcept {
  detail::resume_scope const scope;
  notified_end_ = false;
  bound const b(*this, max_items, forever);
  bool const limited = max_items >= 0;
  for (;;) {
    turn_.begin();
    // Where a turn may not serve all, posted work, timers and the kernel's results take turns in beginning.
    unsigned const rotation = limited ? turn_.rotate() : 0;
    bool const posted_last = (rotation & 1) != 0 && !is_idle();
    int ran = posted_last ? 0 : run_posted_again(b);
    take_messages();
    expire(bound(*this, turn_budget, forever));
    count_landed();
    int const before = ran + delivered_;
    // Nothing of its own is in flight, so that there is nothing to ask the kernel for.
    if (before != 0 ? is_idle() : is_done()) {
      (void)take_wake();
      bool const more = has_posted() || (shared_ != nullptr && shared_->has_shared());
      if (before == 0 && more && !b.spent()) continue;
      return ran + take_delivered();
    }
    std::int64_t sleep_until = 0;
    if (before == 0 && !turn_.has_ready() && !has_posted() && until != 0) {
      sleep_until = linger_for_workers() ? 0 : std::min(until, next_due());
    }
    int const e = fetch(b, sleep_until, true);
    if (e != 0 && !turn_.has_results()) return detail::to_error_code(e);
    if (sleep_until != 0) expire(bound(*this, turn_budget, forever));
    ran += serve(b, (rotation & 2) != 0 ? 0 : turn_budget / 2, true);
    if (posted_last) ran += run_posted_again(b);
    count_landed();
    if (int const n = ran + take_delivered(); n != 0 || b.spent()) return n != 0 ? n : -1;
    if (e != 0) return detail::to_error_code(e);
    if (std::exchange(notified_end_, false)) return -1; // the caller may wait for just that end
    if (take_wake()) return -1;
    if (until != forever && (until == 0 || now() >= until)) return is_done() ? 0 : -1;
  }
}

io_status engine::poll(io_operation& op) noexcept {
  if (!op.started()) return io_status::not_started;
  if (!on_own_thread() || is_elsewhere(op))
    return op.completed() ? io_status::completed : io_status::pending;
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
