// A turn: what the kernel has is fetched, and receivers are notified. Whose turn it is, turn.hpp says.
//
// A turn of more than 64 deliveries gives the ring what its receivers have started after each 64, and at its
// end. It fetches nothing new then: what the kernel reads then would find no slot.

#include "core/resuming.hpp"
#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/recording.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <unio/detail/promise.hpp>

#include <algorithm>

namespace unio::inline v0_1::driver {
namespace {

/// How often a turn asks the kernel while it has more than one call brings.
constexpr int calls_per_turn = 64;

[[gnu::cold, gnu::noinline]] result<int> failed_to_run(int native_code) noexcept {
  return detail::to_error_code(native_code);
}

} // namespace

[[gnu::cold]] engine_state::engine_state(std::unique_ptr<backend> b, shared_state* shared) noexcept
    : backend_(std::move(b)),
      shared_(shared),
      is_watched_(shared != nullptr || is_recording()),
      mail_(backend_->give_doorbell()),
      inside_(shared != nullptr && sys::has_barriers()),
      fork_generation_(sys::fork_generation()) {}

[[gnu::cold]] engine::engine(std::unique_ptr<backend> b, shared_state* shared) noexcept
    : engine_state(std::move(b), shared) {
  registry::enlist(in_registry_);
}

std::int64_t backend::now() const noexcept { return sys::steady_now(); }

bool engine_state::on_own_thread() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  return owner == nullptr || owner == this_thread_token();
}

io_multiplexer::runner engine::run_by() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr || owner == this) return runner::none_yet;
  return owner == this_thread_token() ? runner::this_thread : runner::another_thread;
}

// ---- a turn -----------------------------------------------------------------------------------------------

// Takes in all that the kernel has; with `timers`, what becomes due is delivered in between. Returns 0
// or a negative native code.
[[gnu::always_inline]] inline int engine::fetch(bound const& b, std::int64_t until, bool timers,
                                                bool is_plain) noexcept {
  UNIO_PROBE(turn_begin, this);
  if (!is_plain && is_recording()) record_turn(recorded::turn_begin, this);
  int r = ask_backend(until);
  if (r != 0) [[unlikely]]
    r = reap_again(b, r, timers);
  UNIO_PROBE(turn_fetched, this);
  if (!is_plain && is_recording()) record_turn(recorded::turn_fetched, this);
  fails_ = r < 0;
  if (fails_) return r;
  take_messages(is_plain);
  turn_.fetched();
  return 0;
}

// The kernel has more than one call brings, or the backend cannot go on. Returns what the last call did.
int engine::reap_again(bound const& b, int reaped, bool timers) noexcept {
  if (reaped < 0) reaped = change_backend(reaped);
  for (int calls = 1; reaped > 0 && calls != calls_per_turn && !b.is_over(); ++calls) {
    take_messages();
    if (timers) {
      expire();
      serve_due(b);
    }
    reaped = reap(0);
  }
  return reaped;
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

// What the kernel has, or only what moments bring, and no more.
result<int> engine::run_part(int max_items, std::int64_t until, bool only_moments) noexcept {
  inside const here(*this);
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  return within_turn([&]() noexcept -> result<int> {
    bound const b(*this, max_items, until);
    if (only_moments) {
      if (shared_ != nullptr) claim();
      expire_first_ones(b);
      turn_.fetched();
      serve_apart(bound(*this, max_items, until), std::numeric_limits<int>::max(), false);
      count_landed();
    } else {
      take_messages();
      if (!is_idle()) {
        if (int const e = fetch_apart(b, 0, false); e != 0) return detail::to_error_code(e);
        serve_apart(b, turn_budget / 2, false);
        count_landed();
      }
    }
    int const n = take_delivered();
    return n != 0 ? n : is_done() ? 0 : -1;
  });
}

result<int> engine::do_complete_io(int max_items, std::int64_t until) noexcept {
  return run_part(max_items, until, false);
}

result<int> engine::do_timeout_io(int max_items, std::int64_t until) noexcept {
  return run_part(max_items, until, true);
}

// One turn. `is_plain`: no other thread shares it, nothing is recorded, and no receiver is running: what is
// only asked otherwise is left out.
[[gnu::always_inline]] inline engine::turned engine::turn_once(bound const& b, bool limited,
                                                               std::int64_t until, bool is_plain) noexcept {
  turn_.begin();
  // Where a turn may not serve all, posted work, timers and the kernel's results take turns in beginning.
  unsigned const rotation = limited ? turn_.rotate() : 0;
  bool const posted_last = (rotation & 1) != 0 && !is_idle();
  int ran = 0;
  if ((any_brought() | any_posted_here() | mail_.any_posts()) != 0 || (!is_plain && shared_ != nullptr)) {
    if (!posted_last) ran = run_posted_again(b);
    take_messages();
  } else if (turn_.has_later()) {
    perform_what_was_put_off();
  }
  expire();
  if (!is_plain) count_landed();
  int const before = ran + delivered_;
  // Nothing of its own is in flight, so that there is nothing to ask the kernel for.
  if ((before != 0 || is_plain) ? is_idle() : is_done()) {
    (void)take_wake();
    bool const more = has_posted() || (shared_ != nullptr && shared_->has_shared());
    if (before == 0 && more) return {.is_over = b.spent(), .n = -1};
    return {.n = ran + take_delivered()};
  }
  std::int64_t sleep_until = 0;
  // Of what other threads have posted since, it is told before it sleeps.
  if (before == 0 && !turn_.has_ready() && any_posted_here() == 0 && until != 0)
    sleep_until = linger_for_workers() ? 0 : std::min(until, next_due());
  int const e = is_plain ? fetch(b, sleep_until, true, true) : fetch_apart(b, sleep_until, true);
  if (e != 0 && !turn_.has_results()) {
    if (!is_plain) count_landed(); // what a thread was called for, say, and leaves to others
    return {.error = e};
  }
  if (sleep_until != 0) expire();
  int const due_first = (rotation & 2) != 0 ? 0 : turn_budget / 2;
  ran += is_plain ? serve(b, due_first, true, true) : serve_apart(b, due_first, true);
  if (posted_last) ran += run_posted_again(b);
  if (!is_plain) count_landed();
  if (int const n = ran + take_delivered(); n != 0 || b.spent()) return {.n = n != 0 ? n : -1};
  if (e != 0) return {.error = e};
  if (std::exchange(notified_end_, false)) return {.n = -1}; // the caller may wait for just that end
  if (take_wake()) return {.n = -1};
  if (until != forever && (until == 0 || now() >= until)) return {.n = is_done() ? 0 : -1};
  return {.is_over = false};
}

result<int> engine::do_run(int max_items, std::int64_t until) noexcept {
  if (!open_ || inherited_by_fork() || is_watched_ || turn_.is_delivering() || detail::resumes_from_loop())
      [[unlikely]]
    return run_turns(max_items, until, nullptr);
  notified_end_ = false;
  bound const b(*this, max_items, forever);
  turned const t = turn_once(b, max_items >= 0, until, true);
  if (!t.is_over) return run_turns(max_items, until, nullptr);
  took_wake_ = false;
  if (t.error != 0) return failed_to_run(t.error);
  return t.n;
}

// Turns until there is something to return, wherever it is called. `woken` is null for a run(). Otherwise it
// becomes true if wake() has ended this, though it was meant for one.
result<int> engine::run_turns(int max_items, std::int64_t until, bool* woken) noexcept {
  inside const here(*this);
  if (int const e = ensure_bound(); e != 0) return failed_to_run(e);
  detail::resume_scope const scope;
  bool const outer = turn_.is_delivering();
  bool const outer_wake = std::exchange(took_wake_, false);
  bool const outer_call = be_in_call(woken != nullptr);
  result<int> const r = within_turn([&]() noexcept -> result<int> {
    notified_end_ = false;
    bound const b(*this, max_items, forever);
    turned t{.is_over = false};
    while (!t.is_over) t = turn_once(b, max_items >= 0, until, false);
    if (t.error != 0) return failed_to_run(t.error);
    return t.n;
  });
  if (outer && r.has_value() && *r < 0) notified_end_ = true; // it was woken, say: so is the run() further up
  bool const own_wake = std::exchange(took_wake_, outer_wake);
  (void)be_in_call(outer_call);
  if (woken != nullptr && own_wake) *woken = true;
  return r;
}

// ---- from the result to the receiver ----------------------------------------------------------------------

[[gnu::always_inline]] inline void engine::deliver(io_operation& op) noexcept {
  operation_links& l = op.links;
  bool const simple = !op.is_atomic() && !is_watched_;
  auto const end = [&](auto leave) noexcept {
    l.is.undelivered = 0;
    leave();
    ++delivered_;
    ++statistics.finished;
    op.deliver_plainly(all_events);
  };
  if (simple && l.is.where == place::ready) [[likely]]
    return end([&] { move(op, place::idle); });
  if (simple && l.is.undelivered == all_events) return end([&] { leave_flight(op); });
  deliver_atomic(op);
}

// From start(), outside of any receiver and with nothing else ready.
void engine::deliver_inline() noexcept {
  turn_.deliver_inline([this](io_operation& op) { deliver(op); },
                       [this](io_operation& op) { deliver_apart(op); });
}

void engine::serve_due(bound const& b) noexcept {
  turn_.serve_due(b, [this](io_operation& op) { deliver_apart(op); });
}

// Returns how much posted work it has run in between.
[[gnu::always_inline]] inline int engine::serve(bound const& b, int due_first, bool ticks,
                                                bool is_plain) noexcept {
  int ran = 0;
  {
    turn::delivering const scope(turn_, !is_plain);
    int const left =
        turn_.serve_lone(b, ticks, [&](io_operation& op) { is_plain ? deliver(op) : deliver_apart(op); });
    if (left >= 0) ran = serve_rounds(b, due_first, left, ticks);
  }
  UNIO_PROBE(turn_end, this);
  if (!is_plain && is_recording()) return record_turn_end(this, ran);
  return ran;
}

int engine::serve_rounds(bound const& b, int due_first, int left, bool ticks) noexcept {
  int ran = 0;
  bool const was_long = turn_.serve_rounds(
      b, due_first, left, ticks, [this](io_operation& op) { deliver(op); },
      [this](io_operation& op) { deliver_apart(op); },
      [&] {
        backend_->submit(*this);
        ran += run_posted(b, turn_budget);
        take_messages();
        expire();
      });
  if (was_long) backend_->submit(*this); // answers of its last part go out in this turn as well
  return ran;
}

// Where it is not worth being a part of its caller.
int engine::serve_apart(bound const& b, int due_first, bool ticks) noexcept {
  return serve(b, due_first, ticks, false);
}
int engine::fetch_apart(bound const& b, std::int64_t until, bool timers) noexcept {
  return fetch(b, until, timers, false);
}
void engine::deliver_apart(io_operation& op) noexcept { deliver(op); }

} // namespace unio::driver
