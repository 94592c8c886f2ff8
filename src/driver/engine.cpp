#include "driver/engine.hpp"

#include "core/pauses.hpp"
#include "core/thread_token.hpp"
#include "driver/choose.hpp"
#include "driver/registry.hpp"
#include "driver/workers.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <unio/detail/promise.hpp>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

namespace unio::driver {
namespace {

constexpr std::int64_t forever = deadline::forever;

using detail::pauses_that_grow;
using detail::retries_that_grow;

bool uses(io_operation const& op, int fd) noexcept {
  bool found = false;
  op.for_each_descriptor([&](int each) { found = found || each == fd; });
  return found;
}

// Made of other operations, which wait in its stead.
bool has_members(io_operation const& op) noexcept { return op.faces().member != nullptr; }

bool never_waits(io_operation const& op) noexcept {
  return op.deadline().is_zero() && op.faces().interruptible;
}

// It is tried, and then it ends.
bool is_only_tried(io_operation const& op) noexcept { return never_waits(op) && !op.is_multishot(); }

constexpr unsigned all_events = io_operation::value | io_operation::done;

} // namespace

// How much one call may do: so many items, until then.
class engine::bound {
 public:
  bound(engine const& e, int max_items, std::int64_t until) noexcept
      : engine_(e), left_(max_items < 0 ? std::numeric_limits<int>::max() : max_items), until_(until) {}
  /// True if one more may be done, which it then counts. The first may always: a bound shorter than looking takes must
  /// not keep a loop from getting anywhere.
  bool take() const noexcept {
    if (left_ <= 0 || (until_ != forever && taken_ && is_late())) return false;
    --left_;
    taken_ = true;
    return true;
  }
  void spend(int n) const noexcept { left_ -= n; }
  [[nodiscard]] bool spent() const noexcept { return left_ <= 0; }
  [[nodiscard]] bool is_over() const noexcept { return spent() || (until_ != forever && is_late()); }
  [[nodiscard]] int left() const noexcept { return left_; }

 private:
  [[gnu::noinline]] bool is_late() const noexcept { return engine_.now() >= until_; }

  engine const& engine_;
  mutable int left_;
  mutable bool taken_ = false;
  std::int64_t until_;
};

engine::engine(std::unique_ptr<backend> b, shared_state* shared) noexcept
    : backend_(std::move(b)), shared_(shared), doorbell_fd_(backend_->give_doorbell()) {
  sys::watch_forks();
  fork_generation_ = sys::fork_generation();
  registry::enlist(*this);
}

engine::~engine() {
  shut_down();
  // A worker whose operation has ended here may not have returned from telling so.
  while (with_workers_.load(std::memory_order_acquire) != 0 && !inherited_by_fork()) sys::sched_yield();
  // Nor may who posted the last that ran, a coroutine's way back, say.
  while (posting_.load(std::memory_order_acquire) != 0 && !inherited_by_fork()) sys::sched_yield();
  if (doorbell_fd_ >= 0) sys::close(doorbell_fd_);
}

backend::~backend() {
  if (owns_doorbell_ && doorbell_fd_ >= 0) sys::close(doorbell_fd_);
}

std::int64_t backend::now() const noexcept { return sys::steady_now(); }

bool engine::inherited_by_fork() const noexcept { return fork_generation_ != sys::fork_generation(); }

bool engine::on_own_thread() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  return owner == nullptr || owner == this_thread_token();
}

int engine::ensure_bound() noexcept {
  if (inherited_by_fork()) return detail::native(error::inherited_by_fork);
  if (bound_) [[likely]]
    return bind_error_;
  bound_ = true;
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  bind_error_ = backend_->bind(*this);
  open_ = bind_error_ == 0;
  return bind_error_;
}

// ---- starting -----------------------------------------------------------------------------------------------------

// What has lately always succeeded has no more in it than it must, and calls nothing but what it ends with; what it leaves
// out, and what is rare, is done by the functions behind it.
void engine::start(io_operation& op) noexcept {
  if (op.is_atomic())
      [[unlikely]] // by another thread, perhaps, which must not look at anything of this one's
    return start_with_care(op);
  operation_faces const& f = op.faces();
  descriptor* const d = descriptors_.find_known(op.fd());
  if (f.perform_then != nullptr && d != nullptr && d->one_way(f.flow).is_sure() && open_ && ready_.empty() &&
      !inherited_by_fork()) [[likely]] {
    ++statistics.started;
    return f.perform_then(op, &tried_bytes, this);
  }
  start_with_care(op);
}

void engine::start_with_care(io_operation& op) noexcept {
  if (op.is_atomic() && !on_own_thread()) {
    if (op.ask(io_operation::request_start)) {
      messages_.push(op);
      poke();
    }
    return;
  }
  begin(op);
}

bool engine::worth_trying(io_operation const& op, descriptor& d) noexcept {
  operation_faces const& f = op.faces();
  bool const predicted = f.tries == inline_attempt::predicted;
  if (predicted && d.direction_of(op).is_ready()) [[likely]]
    return true;
  if (is_only_tried(op) || f.tries == inline_attempt::always) return true;
  return predicted && d.direction_of(op).worth_trying();
}

inline bool engine::goes_with_others(io_operation const& op) noexcept {
  operation_faces const& f = op.faces();
  return f.goes_with_others != nullptr && backend_->prefers_batch(*this, op) && !is_only_tried(op) &&
         f.goes_with_others(op);
}

void engine::begin(io_operation& op) noexcept {
  operation_faces const& f = op.faces();
  ++statistics.started;
  if (!open_ || inherited_by_fork()) [[unlikely]]
    if (int const e = closing_ ? detail::native(error::multiplexer_destroyed) : ensure_bound(); e != 0)
      return fail(op, e);
  if (f.begin != nullptr) f.begin(op);
  descriptor* const d = descriptors_.find(op.fd());
  if (d == nullptr) [[unlikely]]
    return fail(op, -ENOMEM);

  if (!worth_trying(op, *d)) return launch(op, *d, attempted::no);
  if (goes_with_others(op)) return launch(op, *d, attempted::with_others);
  tried(op, f.perform(op, attempt::nonblocking));
}

// What an attempt has come to.
void engine::tried(io_operation& op, int res) noexcept {
  if (res != -EAGAIN) [[likely]] {
    ++statistics.inline_hits;
    descriptors_.find(op.fd())->direction_of(op).hit();
    if (op.faces().complete(op, res, 0) == outcome::finished) [[likely]]
      return settle_inline(op);
  } else {
    ++statistics.inline_misses;
    unready(op);
  }
  if (is_only_tried(op)) return fail(op, -EAGAIN);
  launch(op, *descriptors_.find(op.fd()), attempted::in_vain);
}

void engine::tried_bytes(io_operation& op, int res, void* engine_that_tried) noexcept {
  auto& self = *static_cast<engine*>(engine_that_tried);
  if (res <= 0) [[unlikely]]
    return self.tried(op, res);
  ++self.statistics.inline_hits;
  op.set_outcome(res);
  self.settle_inline(op);
}

// Ends an operation that was never in flight.
void engine::fail(io_operation& op, int code) noexcept {
  op.set_outcome(code);
  settle_inline(op);
}

// ---- in flight ----------------------------------------------------------------------------------------------------

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
  l.is.in_flight = true;
  ++in_flight_;
  if (shared_ != nullptr) shared_->count(1);
  list(op, d);
  op.for_each_descriptor([this](int fd) {
    sys::enter_flight(fd);
    descriptors_.find(fd); // so that relisting it cannot fail for want of memory
  });
  if (op.faces().for_each_descriptor != nullptr) ++several_descriptors_;
  readiness const wants = op.faces().wants(op);
  bool const has_deadline = op.faces().interruptible && !op.deadline().is_none() && !op.deadline().is_zero();
  l.due = has_deadline ? due(op.deadline()) : forever;
  if (wants == readiness::time) {
    l.due = std::min(l.due, op.faces().moment(op));
    if (l.due != forever) deadlines_.insert(op);
    return;
  }
  if (l.due != forever) deadlines_.insert(op);
  if (has_members(op)) return;
  if (op.is_multishot() && never_waits(op)) return restart(op);
  backend_->arm(*this, op, how);
}

void engine::land(io_operation& op) noexcept {
  operation_links& l = op.links;
  l.is.in_flight = false;
  --in_flight_;
  if (shared_ != nullptr) ++landed_;
  unlist(op, *descriptors_.find(op.fd()));
  l.is.landed = true;
  if (l.is.in_heap) deadlines_.remove(op);
  if (op.faces().for_each_descriptor != nullptr) --several_descriptors_;
}

// For the threads that close its descriptors an operation is in flight until its receiver is about to be told.
void engine::leave_flight(io_operation& op) noexcept {
  op.links.is.landed = false;
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
      l.is.restart = (flags & flag_more) == 0;
      return settle(op, io_operation::value);
    case outcome::pause: {
      bool const first = l.is.pauses == 0;
      if (l.is.pauses < pauses_that_grow) ++l.is.pauses;
      l.is.restart = (flags & flag_more) == 0;
      if (first) return settle(op, io_operation::value);
      return after_value(op);
    }
    case outcome::pending:
      return;
    case outcome::again:
      if (l.is.cancel_wanted || l.is.timed_out) return process(op, -ECANCELED, 0);
      l.is.polling = true;
      return await_readiness(op);
  }
}

// The result of an operation in flight is known, or its end: queues it to be delivered, from a loop.
void engine::settle(io_operation& op, unsigned events) noexcept {
  operation_links& l = op.links;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered | events);
  if ((events & io_operation::done) != 0) land(op);
  if (l.is.queue != static_cast<std::uint8_t>(queue_name::none)) return;
  queue_next_inline();
  ready_.push(op);
}

// The same for one that never was in flight: delivered at once, unless a receiver is running or others wait for their turn.
void engine::settle_inline(io_operation& op) noexcept {
  if (op.is_quiet() && quiet_ > 0) { // its coroutine is still running and will look
    --quiet_;
    ++statistics.finished;
    op.mark_finished();
    return;
  }
  op.links.is.undelivered = all_events;
  if (next_inline_ == nullptr && ready_.empty()) [[likely]] {
    if (delivering_) { // a receiver started it
      next_inline_ = &op;
      return;
    }
    if (!op.is_quiet()) {
      next_inline_ = &op;
      return deliver_inline();
    }
  }
  queue_next_inline();
  ready_.push(op);
}

// The next result to deliver. Due ones come first, but no more than their share.
inline io_operation* engine::pop_ready() noexcept {
  if (next_inline_ != nullptr) {
    --round_left_;
    return std::exchange(next_inline_, nullptr);
  }
  if (due_.empty() || (due_first_ <= 0 && round_left_ > 0 && !ready_.empty())) {
    --round_left_;
    return ready_.pop();
  }
  --due_first_;
  return due_.pop();
}

// Call before touching ready_ outside the loops that use pop_ready().
void engine::queue_next_inline() noexcept {
  if (next_inline_ != nullptr) ready_.push(*std::exchange(next_inline_, nullptr));
}

void engine::unqueue(io_operation& op) noexcept { (due_.contains(op) ? due_ : ready_).remove(op); }

bool engine::perform_now(io_operation& op) noexcept {
  int const r = op.faces().perform(op, attempt::nonblocking);
  if (r == -EAGAIN) return unready(op), false;
  process(op, r, 0);
  return true;
}

// An attempt would have waited. The operation learns which of its descriptors to wait on, the descriptor that it is empty.
void engine::unready(io_operation& op) noexcept {
  int const fd = op.fd();
  op.faces().complete(op, -EAGAIN, 0);
  relist(op, fd);
  descriptors_.find(op.fd())->missed(op);
}

void engine::relist(io_operation& op, int old_fd) noexcept {
  if (op.fd() == old_fd || !op.links.is.in_flight) [[likely]]
    return;
  unlist(op, *descriptors_.find(old_fd));
  list(op, *descriptors_.find(op.fd()));
}

void engine::await_readiness(io_operation& op) noexcept {
  switch (op.faces().wants(op)) {
    case readiness::time:
      return; // the deadline queue has it
    case readiness::nothing:
      return later_.push(op);
    case readiness::retry:
      return retry_later(op);
    case readiness::worker:
      return to_worker(op);
    case readiness::readable:
    case readiness::writable:
    case readiness::exceptional:
      return backend_->park(*this, op);
  }
}

void engine::to_worker(io_operation& op) noexcept {
  ++statistics.worker_jobs;
  op.links.is.with_worker = true;
  with_workers_.fetch_add(1, std::memory_order_relaxed);
  give_to_worker(op);
}

// A call that was allowed to block and could not go on all the same (a file with a lease, a device) is tried again, and then
// again after a while: nothing tells when it can.
void engine::worker_returned(io_operation& op, int res) noexcept {
  operation_links::marks& is = op.links.is;
  if (res != -EAGAIN || is.cancel_wanted || is.timed_out) return process(op, res, 0);
  unready(op);
  if (op.faces().wants(op) == readiness::worker && is.pauses != 0) return retry_later(op);
  if (is.pauses == 0) is.pauses = 1;
  is.polling = true;
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
  l.is.retrying = true;
  l.deadline_due = l.due;
  l.due = std::min(l.deadline_due, now() + std::int64_t{milliseconds} * 1'000'000);
  deadlines_.insert(op);
}

// Gives an operation that has yielded a value, or has paused, to the driver again.
void engine::restart(io_operation& op) noexcept {
  if (!never_waits(op)) return backend_->arm(*this, op, attempted::no);
  if (perform_now(op)) return;
  op.set_outcome(-EAGAIN);
  settle(op, io_operation::value | io_operation::done);
}

void engine::after_value(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (!op.is_multishot()) return; // only waits for the kernel to let go
  bool const idle = l.is.restart;
  if (l.is.cancel_wanted || l.is.timed_out) {
    if (idle || take_back(op)) process(op, -ECANCELED, 0);
    return;
  }
  if (!idle) return;
  l.is.restart = false;
  if (l.is.pauses != 0) return retry_after(op, detail::pause_ms(l.is.pauses));
  restart(op);
}

// ---- ending -------------------------------------------------------------------------------------------------------

// Takes an operation back from wherever it waits. False: the kernel or a worker has it and will say when it ends.
bool engine::take_back(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (l.is.with_worker) {
    if (!take_from_workers(op)) return false;
    l.is.with_worker = false;
    with_workers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  if (later_.contains(op)) return later_.remove(op), true;
  if (l.is.retrying || op.faces().wants(op) == readiness::time) {
    l.is.retrying = false;
    return true;
  }
  if (has_members(op)) return true; // its decoder asks the member that runs
  return backend_->disarm(*this, op);
}

void engine::cancel(io_operation& op) noexcept {
  if (op.is_atomic() && !on_own_thread()) {
    if (op.ask(io_operation::request_cancel)) {
      messages_.push(op);
      poke();
    }
    return;
  }
  operation_links& l = op.links;
  if (!l.is.in_flight || l.is.cancel_wanted || !op.faces().interruptible) return;
  if (op.completed() && !op.is_multishot()) return;
  ++statistics.cancels;
  l.is.cancel_wanted = true;
  if (l.is.undelivered != 0 || is_being_told(op)) return; // after_value() sees to it
  if (take_back(op)) process(op, -ECANCELED, 0);
}

void engine::expire_one(io_operation& op, std::int64_t now_ns) noexcept {
  operation_links& l = op.links;
  deadlines_.remove(op);
  if (l.is.retrying && l.deadline_due > now_ns) {
    l.is.retrying = false;
    l.due = l.deadline_due;
    if (l.due != forever) deadlines_.insert(op);
    return restart(op);
  }
  if (op.faces().wants(op) == readiness::time && perform_now(op)) return;
  ++statistics.timeouts;
  l.is.timed_out = true;
  if (l.is.undelivered != 0) return;
  if (!take_back(op)) return;
  // Bytes beat the deadline: whatever is there by now is taken.
  if (op.faces().wants(op) != readiness::time && perform_now(op)) return;
  process(op, -ECANCELED, 0);
}

// What ends here is delivered before what else is ready: a timer must not wait until a long queue has been served.
void engine::expire(bound const& b) noexcept {
  if (deadlines_.earliest() == nullptr) return;
  std::int64_t const now_ns = now();
  while (deadlines_.earliest() != nullptr && deadlines_.earliest()->links.due <= now_ns && b.take()) {
    io_operation& op = *deadlines_.earliest();
    expire_one(op, now_ns);
    if (op.links.is.with_worker || !ready_.contains(op)) continue; // the mark of its queue may be a worker's
    ready_.remove(op);
    due_.push(op);
  }
}

// ---- delivering ---------------------------------------------------------------------------------------------------

[[gnu::always_inline]] inline void engine::deliver(io_operation& op) noexcept {
  operation_links& l = op.links;
  if (l.is.undelivered == all_events && !l.is.landed && !op.is_atomic() && telling_ == nullptr) [[likely]] {
    l.is.undelivered = 0;
    ++delivered_;
    ++statistics.finished;
    return op.deliver(all_events);
  }
  deliver_with_care(op);
}

// One that was in flight, that other threads may touch, that has ended in part only, or while such a one is told.
void engine::deliver_with_care(io_operation& op) noexcept {
  operation_links& l = op.links;
  unsigned events = l.is.undelivered;
  if (l.is.landed) leave_flight(op);
  if (events == all_events && !op.is_atomic() && telling_ == nullptr) [[likely]] {
    l.is.undelivered = 0;
    ++delivered_;
    ++statistics.finished;
    return op.deliver(all_events);
  }
  // Another thread's request for an atomic form is on its way: the end waits for it (take_messages).
  if ((events & io_operation::done) != 0 && !op.close_to_requests()) events &= ~io_operation::done;
  if (events != l.is.undelivered) ++deferred_;
  l.is.undelivered = static_cast<std::uint8_t>(l.is.undelivered & ~events);
  if (events == 0) return;
  if ((events & io_operation::value) != 0) ++delivered_;
  bool const ends = (events & io_operation::done) != 0;
  if (ends) ++statistics.finished;
  if (ends) told_end_ = true;
  if (ends) {
    for (told* t = telling_; t != nullptr;
         t = t->outer) // its receiver, told of a value further up, closed the handle
      if (t->op == &op) t->op = nullptr;
    return op.deliver(events); // the operation may be gone now
  }
  told here{&op, telling_};
  telling_ = &here;
  op.deliver(events);
  telling_ = here.outer;
  // One that has another value by now, from a run() of the receiver's, is seen to after that one.
  if (here.op != nullptr && l.is.in_flight && l.is.undelivered == 0) after_value(op);
}

bool engine::is_being_told(io_operation const& op) const noexcept {
  for (told const* t = telling_; t != nullptr; t = t->outer)
    if (t->op == &op) return true;
  return false;
}

// While others wait for their turn, a coroutine may complete no more inline than answers what it was resumed with.
inline void engine::serve_one(io_operation& op) noexcept {
  --budget_;
  int const granted = alone_ && !has_results() ? budget_ : inline_beside_others;
  quiet_ = granted;
  deliver(op);
  budget_ -= granted - quiet_;
}

// Fast path for one that has the turn to itself and completes again and again inside of its receiver.
template <class May> [[gnu::always_inline]] inline void engine::serve_alone(May may_go_on) noexcept {
  while (next_inline_ != nullptr && budget_ > 0 && may_go_on()) {
    io_operation& op = *std::exchange(next_inline_, nullptr);
    quiet_ = --budget_;
    deliver(op);
    budget_ = quiet_;
  }
}

// From start(), outside of any receiver and with nothing else ready: delivers what completed inline, and what its receiver
// starts.
void engine::deliver_inline() noexcept {
  delivering_ = true;
  alone_ = true;
  round_left_ = 1;
  serve_alone([] { return true; });
  while (budget_ > 0 && has_results()) serve_one(*pop_ready());
  queue_next_inline();
  delivering_ = false;
}

void engine::serve_due(bound const& b) noexcept {
  if (due_.empty()) return;
  bool const outer = std::exchange(delivering_, true);
  int const outer_quiet = quiet_;
  alone_ = false;
  for (int left = due_.size(); left > 0 && !due_.empty() && b.take(); --left) serve_one(*due_.pop());
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer ? outer_quiet : turn_budget;
}

// Serves the queue in whole rounds: first all that is in it, each once, and then again what has come behind it, as long as all
// of that fits into what is left of the budget. A long round is interrupted after each 64 completions, if `ticks`. Returns how
// much posted work it has run meanwhile.
int engine::serve(bound const& b, int due_first, bool ticks) noexcept {
  bool const outer = std::exchange(delivering_, true);
  int const outer_quiet = quiet_;
  int ran = 0;
  bool is_long = false;
  due_first_ = due_first;
  round_left_ = waiting();
  int left =
      turn_budget - round_left_; // of the rounds, whatever a receiver that runs this itself makes of budget_
  // Receivers may take operations out of the queue.
  auto const in_round = [this] { return (round_left_ > 0 && waiting() != 0) || !due_.empty(); };
  while (in_round()) {
    while (in_round() && (budget_ > 0 || !ticks) && b.take()) serve_one(*pop_ready());
    if (b.spent()) break;
    if (!in_round()) {
      if (alone_) serve_alone([&b] { return b.take(); });
      int const next = waiting();
      if (next == 0 || next > std::min(left, budget_)) break;
      left -= next;
      round_left_ = next;
      continue;
    }
    // The round is long, or the time is over. Timers that are always due must not hold up the kernel.
    bool const only_due = round_left_ <= 0 || waiting() == 0;
    if (!ticks || only_due || b.is_over()) break;
    alone_ = false;
    left = 0;
    int const round = round_left_;
    is_long = true;
    backend_->submit(*this);
    ran += run_posted(b, turn_budget);
    take_messages();
    expire(bound(*this, turn_budget, forever));
    round_left_ = round;
    due_first_ = turn_budget / 2;
    budget_ = turn_budget;
  }
  if (is_long) backend_->submit(*this); // answers of its last part go out in this turn as well
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer ? outer_quiet : turn_budget;
  return ran;
}

// ---- from other threads -------------------------------------------------------------------------------------------

bool engine::before_sleep() noexcept {
  sleeping_.store(true, std::memory_order_seq_cst);
  bool const awake = !posted_.empty() || !messages_.empty() || !worker_done_.empty() ||
                     woken_.load(std::memory_order_seq_cst) ||
                     (shared_ != nullptr && shared_->before_sleep());
  if (awake) after_sleep();
  return awake;
}

void engine::post(work& w) noexcept {
  if (owner_.load(std::memory_order_relaxed) == this_thread_token() &&
      open_) { // it is awake, and nobody else looks
    return posted_here_.push(w);
  }
  posting_.fetch_add(1, std::memory_order_relaxed);
  posted_.push(w); // from here on `w` may run, and whatever it lets go on end this engine
  poke();
  posting_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in ~engine
}

void engine::take_posted() noexcept {
  for (work* w = posted_.take(); w != nullptr;) {
    work* const next = w->next;
    posted_here_.push(*w);
    w = next;
  }
}

bool engine::withdraw(work& w) noexcept {
  if (!on_own_thread()) return false;
  take_posted();
  return posted_now_.remove(w) || posted_here_.remove(w);
}

io_multiplexer::runner engine::run_by() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr) return runner::none_yet;
  return owner == this_thread_token() ? runner::this_thread : runner::another_thread;
}

void engine::wake() noexcept {
  woken_.store(true, std::memory_order_seq_cst);
  poke();
}

bool engine::poke() noexcept {
  // seq_cst: pairs with before_sleep(). Either this sees the sleeper, or the sleeper sees what was pushed before. One that
  // is awake is only looked at: its cache line stays where it is.
  bool const slept =
      sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false, std::memory_order_seq_cst);
  std::uint64_t const one = 1;
  if (slept && doorbell_fd_ >= 0) sys::write(doorbell_fd_, &one, sizeof one);
  return slept;
}

void engine::worker_done(io_operation& op) noexcept {
  worker_done_.push(op);
  poke();
  with_workers_.fetch_sub(
      1, std::memory_order_release); // pairs with the acquire in ~engine, which may follow at once
}

void engine::take_messages() noexcept {
  queue_next_inline();
  for (io_operation* op = messages_.take(); op != nullptr;) {
    io_operation* const next = op->next_message();
    std::uint32_t const asked = op->take_requests();
    if ((asked & io_operation::request_start) != 0) {
      bool const outer =
          std::exchange(delivering_, true); // it may end at once, but not be told, and gone, yet
      begin(*op);
      queue_next_inline();
      delivering_ = outer;
    }
    if ((asked & io_operation::request_cancel) != 0) cancel(*op);
    operation_links& l = op->links;
    if (l.is.undelivered != 0 &&
        l.is.queue == static_cast<std::uint8_t>(queue_name::none)) { // deferred by deliver()
      --deferred_;
      ready_.push(*op);
    }
    op = next;
  }
  for (io_operation* op = worker_done_.take(); op != nullptr;) {
    io_operation* const next = op->links.next;
    op->links.next = nullptr;
    op->links.is.with_worker = false;
    worker_returned(*op, op->outcome_value());
    op = next;
  }
  for (io_operation* const last = later_.last(); !later_.empty();) {
    io_operation& op = *later_.pop();
    bool const was_last = &op == last;
    if (!perform_now(op)) await_readiness(op);
    if (was_last) break; // what comes back is for the next turn
  }
}

int engine::run_posted(bound const& b, int at_most) noexcept {
  int n = 0;
  bool const outer = std::exchange(delivering_, true);
  int const outer_quiet = quiet_;
  take_posted();
  posted_now_.append(posted_here_); // what they post is for the next turn
  bool const only_one = posted_now_.has_one();
  for (int left = at_most; left != 0 && !posted_now_.empty() && b.take(); --left) {
    work& w = *posted_now_.pop();
    ++n;
    begin_work(only_one);
    w();
  }
  if (shared_ != nullptr) {
    int const shared = shared_->run_shared(b.left());
    b.spend(shared);
    n += shared;
  }
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer ? outer_quiet : turn_budget;
  return n;
}

// Of several threads one that has nothing in flight has nothing to ask the kernel for: it runs what was posted meanwhile as
// well, but not without bound.
int engine::run_posted_again(bound const& b) noexcept {
  int ran = 0;
  for (int turns = 0; turns != turn_budget && !b.spent(); ++turns) {
    // While others wait, they have their turn after so many.
    bool const others = in_flight_ != 0 || has_results();
    int const n = run_posted(b, others ? turn_budget : std::numeric_limits<int>::max());
    ran += n;
    if (n == 0 || shared_ == nullptr || !is_idle()) break;
  }
  return ran;
}

// ---- the backend ------------------------------------------------------------------------------------------------------

int engine::reap(std::int64_t until) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    until = std::min(reap_leaving(until), until != 0 ? next_due() : 0);
  int const e = backend_->reap(*this, until);
  return e >= 0 ? e : change_backend(e);
}

// The backend may not go on (a seccomp filter that came later, say): epoll takes its place. What the kernel has not begun
// is armed again there. What it may have begun is never performed again, and its memory is the kernel's until the old one
// says that the kernel holds nothing any more.
int engine::change_backend(int why) noexcept {
  std::unique_ptr<backend> next = backend_after(*backend_, why, doorbell_fd_);
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
      bool const stays = l.is.submitted;
      bool const with_backend = !stays && !l.is.with_worker && !later_.contains(*op) && !l.is.retrying &&
                                l.is.undelivered == 0 && op->faces().wants(*op) != readiness::time &&
                                !has_members(*op);
      if (with_backend) {
        l.is.polling = false;
        if (l.is.cancel_wanted || l.is.timed_out) {
          process(*op, -ECANCELED, 0);
        } else {
          backend_->arm(*this, *op, attempted::no);
        }
      }
      // One whose value is still to be delivered is armed again after that.
      if (!stays && op->is_multishot() && l.is.undelivered != 0 && l.is.in_flight) l.is.restart = true;
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
  if (has_ready()) return 0;
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

// Takes in all that the kernel has; with `timers`, what is due meanwhile is delivered in between. Returns 0 or a negative
// native code.
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
  if (r < 0) return r;
  take_messages();
  alone_ = waiting() + due_.size() <= 1;
  return 0;
}

// ---- the loop -----------------------------------------------------------------------------------------------------

// What has landed counts as pending for the other threads until its receivers have run: they may start more.
void engine::count_landed() noexcept {
  if (landed_ == 0 || delivering_ || has_results()) return;
  shared_->count(-std::exchange(landed_, 0));
}

int engine::take_delivered() noexcept {
  int const n = delivered_;
  delivered_ = 0;
  return n;
}

// Called by a receiver or by posted work: the run() further up learns what was delivered. It would sleep otherwise, though
// what it was to wait for has come.
template <class Turn> result<int> engine::within_turn(Turn turn) noexcept {
  if (!delivering_) [[likely]] {
    budget_ = turn_budget;
    return turn();
  }
  queue_next_inline();
  int const counted = std::exchange(delivered_, 0);
  bool const ended = told_end_;
  result<int> const r = turn();
  delivered_ += counted + std::max(r.has_value() ? *r : 0, 0);
  told_end_ = told_end_ || ended;
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
    return n != 0 ? n : is_idle() ? 0 : -1;
  });
}

result<int> engine::do_timeout_io(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  return within_turn([&]() noexcept -> result<int> {
    expire(bound(*this, max_items, until));
    alone_ = waiting() + due_.size() <= 1;
    serve(bound(*this, max_items, until), std::numeric_limits<int>::max(), false);
    count_landed();
    int const n = take_delivered();
    return n != 0 ? n : is_idle() ? 0 : -1;
  });
}

result<int> engine::do_invoke_posted(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  if (!delivering_) budget_ = turn_budget;
  return run_posted(bound(*this, max_items, until), std::numeric_limits<int>::max());
}

result<int> engine::do_run(int max_items, std::int64_t until) noexcept {
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  bool const outer = delivering_;
  result<int> const r = within_turn([&]() noexcept { return turns(max_items, until); });
  if (outer && r.has_value() && *r < 0) told_end_ = true; // it was woken, say: so is the run() further up
  return r;
}

result<int> engine::turns(int max_items, std::int64_t until) noexcept {
  detail::resume_scope const scope;
  told_end_ = false;
  bound const b(*this, max_items, forever);
  bool const limited = max_items >= 0;
  for (;;) {
    budget_ = turn_budget;
    // Where a turn may not serve all, posted work, timers and the kernel's results take turns in beginning.
    unsigned const rotation = limited ? rotation_++ : 0;
    bool const posted_last = (rotation & 1) != 0 && !is_idle();
    int ran = posted_last ? 0 : run_posted_again(b);
    take_messages();
    expire(bound(*this, turn_budget, forever));
    count_landed();
    int const before = ran + delivered_;
    // Nothing of its own is in flight, so that there is nothing to ask the kernel for.
    bool const idle = is_idle() && (shared_ == nullptr || before != 0 || shared_->pending() == landed_);
    if (idle) {
      woken_.store(false, std::memory_order_relaxed);
      bool const more = has_posted() || (shared_ != nullptr && shared_->has_shared());
      if (before == 0 && more && !b.spent()) continue;
      return ran + take_delivered();
    }
    std::int64_t sleep_until = 0;
    if (before == 0 && !has_ready() && !has_posted() && until != 0) {
      sleep_until = std::min(until, next_due());
    }
    int const e = fetch(b, sleep_until, true);
    if (e != 0 && !has_results()) return detail::to_error_code(e);
    if (sleep_until != 0) expire(bound(*this, turn_budget, forever));
    ran += serve(b, (rotation & 2) != 0 ? 0 : turn_budget / 2, true);
    if (posted_last) ran += run_posted_again(b);
    count_landed();
    if (int const n = ran + take_delivered(); n != 0 || b.spent()) return n != 0 ? n : -1;
    if (e != 0) return detail::to_error_code(e);
    if (std::exchange(told_end_, false)) return -1; // whoever runs this may wait for just that end
    if (woken_.exchange(false, std::memory_order_relaxed)) return -1;
    if (until != forever && (until == 0 || now() >= until)) return is_idle() ? 0 : -1;
  }
}

io_status engine::poll(io_operation& op) noexcept {
  if (!op.started()) return io_status::not_started;
  if (op.completed() || !on_own_thread()) return op.completed() ? io_status::completed : io_status::pending;
  operation_links& l = op.links;
  if (inherited_by_fork()) { // the parent's; this process has only a copy of its memory
    op.set_outcome(detail::native(error::inherited_by_fork));
    op.deliver(io_operation::value | io_operation::done);
    return io_status::completed;
  }
  if (!delivering_) budget_ = turn_budget;
  if (l.is.in_flight && l.is.undelivered == 0) {
    if (l.is.in_heap && l.due <= now()) {
      expire_one(op, now());
    } else if (has_members(op)) {
      poll_member(op.faces().member(op));
    } else if (l.is.with_worker || later_.contains(op)) {
      take_messages();
    } else if (!l.is.retrying) {
      look_at(op);
    }
    take_messages();
  }
  if (l.is.undelivered == 0) return io_status::pending;
  deliver_now(op);
  return io_status::completed;
}

// Takes an operation out of the queue of those that are to be delivered.
void engine::deliver_now(io_operation& op) noexcept {
  queue_next_inline();
  unqueue(op);
  bool const outer = delivering_;
  int const outer_quiet = quiet_;
  delivering_ = true;
  deliver(op);
  queue_next_inline();
  delivering_ = outer;
  quiet_ = outer_quiet;
  count_landed();
}

void engine::poll_member(io_operation& m) noexcept {
  if (!m.completed()) {
    (void)poll(m);
    return;
  }
  // Its value is known; the chain goes on once the kernel has let go of its buffers.
  if (m.links.is.undelivered == 0) look_at(m);
  if (m.links.is.undelivered != 0) deliver_now(m);
}

void engine::member_ended(io_operation& chain) noexcept {
  if (delivered_ > 0) --delivered_; // nobody outside of the chain was told of anything
  if (chain.links.is.in_flight) (void)perform_now(chain);
}

void engine::finish(io_operation& op) noexcept {
  // Not this thread's: it is its own thread that takes it to its end.
  if (!on_own_thread()) {
    while (!op.finished() && !inherited_by_fork()) sys::sched_yield();
    return;
  }
  while (!op.finished()) {
    result<int> const r = do_run(-1, forever);
    if (!r.has_value() && inherited_by_fork())
      break; // the parent's operation; this process has only its memory
  }
}

void engine::abandon(io_operation& op) noexcept {
  if (inherited_by_fork()) return;
  cancel(op);
  if (on_own_thread()) {
    ++statistics.abandoned;
    // One that waits for nothing but to be delivered need not drive the others: nobody is told. (Only then is the mark of
    // its queue this thread's to read: a worker may have it.)
    queue_next_inline();
    if ((op.links.is.undelivered & io_operation::done) != 0 && (due_.contains(op) || ready_.contains(op))) {
      unqueue(op);
      int const counted = delivered_;
      deliver(op);
      delivered_ = counted;
      count_landed();
    }
  }
  finish(op);
}

// ---- descriptors that are closed, and the end ------------------------------------------------------------------------

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

bool engine::has_in_flight(int fd) noexcept {
  auto has_one = [fd](descriptor const& d) {
    for (io_operation* op = d.in_flight; op != nullptr; op = op->links.next_on_handle)
      if (uses(*op, fd)) return true;
    return false;
  };
  descriptor const* const d = descriptors_.find(fd);
  bool found = d != nullptr && has_one(*d);
  if (!found && several_descriptors_ != 0)
    descriptors_.for_each([&](descriptor& other) { found = found || has_one(other); });
  return found;
}

// A turn towards an end that must be reached. False: it cannot be, for good; a passing shortage of memory is no reason.
bool engine::go_on() noexcept {
  result<int> const r = do_run(-1, forever);
  return r.has_value() || r.error() == std::errc::not_enough_memory;
}

void engine::forget_here(int fd) noexcept {
  if (inherited_by_fork()) return;
  descriptor* const d = descriptors_.find(fd);
  bool const tell = sys::in_flight(fd) != 0; // also if all have ended, but not all receivers were told yet
  if (in_flight_ != 0 && has_in_flight(fd)) {
    cancel_all_on(fd);
    // A receiver that closes the handle while it is told of one of many values: the end cannot wait for it to return.
    for (told const* t = telling_; t != nullptr; t = t->outer)
      if (t->op != nullptr && t->op->links.is.undelivered == 0 && uses(*t->op, fd)) after_value(*t->op);
    while (has_in_flight(fd)) {
      if (!go_on()) break;
      cancel_all_on(fd);
    }
  }
  // Nothing is in flight on it any more; now its receivers are told, before their descriptor goes. Only they: those of
  // others may close handles as well, and would be nested in each other without bound.
  for (operation_queue* const queue : {&due_, &ready_})
    for (io_operation* op = tell ? queue->first() : nullptr; op != nullptr;) {
      io_operation* const next = op->links.next;
      bool const here = op->links.is.landed && uses(*op, fd);
      if (here) queue->remove(*op);
      if (here) deliver(*op);
      op = here ? queue->first() : next;
    }
  if (d != nullptr && d->registered) {
    backend_->unregister(fd, *d);
    d->registered = false;
  }
}

void engine::closing_call::invoke(work& w, bool run) noexcept {
  auto& call = static_cast<closing_call&>(w);
  registry::answer_call(call.self, run);
}

void engine::forget(int fd) noexcept {
  if (inherited_by_fork()) return;
  if (on_own_thread()) return forget_here(fd);
  if (sys::in_flight(fd) != 0) registry::forget_in_all(fd);
}

void engine::drop_posted() noexcept {
  take_posted();
  posted_now_.append(posted_here_);
  while (work* const w = posted_now_.pop()) {
    (*w)(false);
    posted_now_.append(posted_here_);
  }
}

void engine::shut_down() noexcept {
  closing_ = true;
  open_ = false;
  // What is dropped may take back what is queued: that is up to the thread that drops it.
  if (is_idle()) owner_.store(this_thread_token(), std::memory_order_relaxed);
  if (!inherited_by_fork() && bound_ && bind_error_ == 0) {
    take_messages();
    auto cancel_all = [this](descriptor& d) {
      for (io_operation* op = d.in_flight; op != nullptr;) {
        io_operation* const next = op->links.next_on_handle;
        cancel(*op);
        op = next;
      }
    };
    if (in_flight_ != 0) descriptors_.for_each(cancel_all);
    while (!is_idle() && go_on()) {
    }
  }
  drop_posted();
  registry::delist(*this); // nobody posts from here on
  drop_posted();
}

} // namespace unio::driver
