// A turn: what the kernel has is fetched, and receivers are notified. Whose turn it is, turn.hpp says.
//
// A turn of more than 64 deliveries gives the ring what its receivers have started after each 64, and at its
// end. It fetches nothing new then: what the kernel reads then would find no slot.

#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/recording.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <unio/detail/promise.hpp>

#include <algorithm>

namespace unio::inline v0_1::driver {

engine::engine(std::unique_ptr<backend> b, shared_state* shared) noexcept
    : backend_(std::move(b)),
      shared_(shared),
      mail_(backend_->give_doorbell()),
      inside_(shared != nullptr && sys::has_barriers()) {
  fork_generation_ = sys::fork_generation();
  registry::enlist(in_registry_);
}

std::int64_t backend::now() const noexcept { return sys::steady_now(); }

bool engine::on_own_thread() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  return owner == nullptr || owner == this_thread_token();
}

io_multiplexer::runner engine::run_by() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr) return runner::none_yet;
  return owner == this_thread_token() ? runner::this_thread : runner::another_thread;
}

// On first use, and what came of it later.
int engine::bind() noexcept {
  if (inherited_by_fork()) return detail::native(error::inherited_by_fork);
  if (bound_) [[likely]]
    return bind_error_;
  bound_ = true;
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  bind_error_ = backend_->bind(*this);
  open_ = bind_error_ == 0 && !closing_;
  return bind_error_;
}

// ---- a turn -----------------------------------------------------------------------------------------------

// Takes in all that the kernel has; with `timers`, what becomes due is delivered in between. Returns 0
// or a negative native code.
[[gnu::always_inline]] inline int engine::fetch(bound const& b, std::int64_t until, bool timers) noexcept {
  UNIO_PROBE(turn_begin, this);
  if (is_recording()) [[unlikely]]
    record_turn(recorded::turn_begin, this);
  int r = reap(until);
  for (int calls = 1; r > 0 && calls != calls_per_turn && !b.is_over(); ++calls) {
    take_messages();
    if (timers) {
      expire(bound(*this, turn_budget, forever));
      serve_due(b);
    }
    r = reap(0);
  }
  UNIO_PROBE(turn_fetched, this);
  if (is_recording()) [[unlikely]]
    record_turn(recorded::turn_fetched, this);
  fails_ = r < 0;
  if (fails_) return r;
  take_messages();
  turn_.fetched();
  return 0;
}

// Called by a receiver or by posted work: the run() further up learns what was delivered. It would sleep
// otherwise, though what it was to wait for has come.
template <class Call> [[gnu::always_inline]] inline result<int> engine::within_turn(Call call) noexcept {
  bool const nested = turn_.is_delivering();
  int counted = 0;
  bool ended = false;
  if (nested) [[unlikely]] {
    turn_.queue_next_inline();
    counted = std::exchange(delivered_, 0);
    ended = notified_end_;
  } else {
    turn_.begin();
  }
  result<int> const r = call();
  if (nested) [[unlikely]] {
    delivered_ += counted + std::max(r.has_value() ? *r : 0, 0);
    notified_end_ = notified_end_ || ended;
  }
  return r;
}

result<int> engine::do_complete_io(int max_items, std::int64_t until) noexcept {
  inside const here(*this);
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
  inside const here(*this);
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
  inside const here(*this);
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  turn_.renew();
  int const ran = run_posted(bound(*this, max_items, until), std::numeric_limits<int>::max());
  count_landed();
  return ran;
}

[[gnu::always_inline]] inline result<int> engine::turns(int max_items, std::int64_t until) noexcept {
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

// `woken`, if it is not null, becomes true if wake() has ended this.
result<int> engine::run_turns(int max_items, std::int64_t until, bool* woken) noexcept {
  inside const here(*this);
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  bool const outer = turn_.is_delivering();
  bool const outer_wake = std::exchange(took_wake_, false);
  result<int> const r = within_turn([&]() noexcept { return turns(max_items, until); });
  if (outer && r.has_value() && *r < 0) notified_end_ = true; // it was woken, say: so is the run() further up
  bool const own_wake = std::exchange(took_wake_, outer_wake);
  if (woken != nullptr && own_wake) *woken = true;
  return r;
}

result<int> engine::do_run(int max_items, std::int64_t until) noexcept {
  return run_turns(max_items, until, nullptr);
}

// ---- from the result to the receiver ----------------------------------------------------------------------

[[gnu::always_inline]] inline void engine::deliver(io_operation& op) noexcept {
  operation_links& l = op.links;
  bool const simple = !op.is_atomic() && notifying_ == nullptr && shared_ == nullptr && !is_recording();
  auto const end = [&](auto leave) noexcept {
    l.is.undelivered = 0;
    leave();
    ++delivered_;
    ++statistics.finished;
    op.deliver(all_events);
  };
  if (simple && l.is.where == place::ready) [[likely]]
    return end([&] { move(op, place::idle); });
  if (simple && l.is.undelivered == all_events) return end([&] { leave_flight(op); });
  deliver_with_care(op);
}

// Of one that goes on.
inline void engine::deliver_value(io_operation& op) noexcept {
  op.links.is.undelivered = 0;
  ++delivered_;
  note_delivery(op);
  if (is_recording()) [[unlikely]]
    record(recorded::delivered, op);
  notify_of_value(op);
}

inline void engine::notify_of_value(io_operation& op) noexcept {
  bool has_ended = false;
  {
    notification const here(*this, op);
    outside const away(*this);
    op.deliver(io_operation::value);
    has_ended = here.has_ended();
  }
  // One that has another value by now, from a run() of the receiver's, is seen to after that one.
  if (!has_ended && op.links.in_flight() && op.links.is.undelivered == 0) after_value(op);
}

// One that other threads may touch, that has ended in part only, or one that ends while a receiver of such a
// part is notified.
void engine::deliver_with_care(io_operation& op) noexcept {
  operation_links& l = op.links;
  unsigned events = l.is.undelivered;
  if (events == io_operation::value && l.is.where != place::landed && l.is.where != place::ready)
    return deliver_value(op);
  if (l.is.where == place::landed) leave_flight(op);
  if (l.is.where == place::ready) move(op, place::idle);
  // Another thread's request for an atomic form is on its way: the end waits for it (take_messages).
  if ((events & io_operation::done) != 0 && !op.close_to_requests(events)) events &= ~io_operation::done;
  if (events != l.is.undelivered) ++deferred_;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered & ~events);
  if (events == 0) return;
  if (is_recording()) [[unlikely]]
    record(recorded::delivered, op);
  if ((events & io_operation::value) != 0) ++delivered_;
  bool const ends = (events & io_operation::done) != 0;
  if (ends) ++statistics.finished;
  if (ends) notified_end_ = true;
  if (ends) {
    for (notification* n = notifying_; n != nullptr; n = n->outer())
      if (n->op() == &op) n->end();
    outside const away(*this);
    return op.deliver(events); // the operation may be gone now
  }
  notify_of_value(op);
}

// From start(), outside of any receiver and with nothing else ready.
void engine::deliver_inline() noexcept {
  turn_.deliver_inline([this](io_operation& op) { deliver(op); });
}

void engine::serve_due(bound const& b) noexcept {
  turn_.serve_due(b, [this](io_operation& op) { deliver(op); });
}

// Returns how much posted work it has run in between.
int engine::serve(bound const& b, int due_first, bool ticks) noexcept {
  int ran = 0;
  bool const was_long = turn_.serve(
      b, due_first, ticks, [this](io_operation& op) { deliver(op); },
      [&] {
        backend_->submit(*this);
        ran += run_posted(b, turn_budget);
        take_messages();
        expire(bound(*this, turn_budget, forever));
      });
  if (was_long) backend_->submit(*this); // answers of its last part go out in this turn as well
  UNIO_PROBE(turn_end, this);
  if (is_recording()) [[unlikely]]
    return record_turn_end(this, ran);
  return ran;
}

// Takes an operation out of the queue of those that are to be delivered.
void engine::deliver_now(io_operation& op) noexcept {
  turn_.queue_next_inline();
  turn_.remove(op);
  turn_.aside([&] { deliver(op); });
  count_landed();
}

} // namespace unio::driver
