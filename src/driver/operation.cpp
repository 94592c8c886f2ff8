// An operation: how it is moved, started, ended, and awaited by a coroutine.

#include "driver/inline.hpp"
#include "driver/recording.hpp"
#include "driver/this_thread.hpp"
#include "sys/calls.hpp"
#include "sys/probes.hpp"

#include <unio/connect.hpp>
#include <unio/detail/promise.hpp>

#include <utility>

namespace unio::inline v0_1 {

io_operation& io_operation::operator=(io_operation&& other) noexcept {
  if (this == &other) return *this;
  char const* const misused = "an operation in flight cannot be moved";
  (void)state_at_rest(misused);
  state_ = other.state_at_rest(misused);
  faces_ = other.faces_;
  multiplexer_ = nullptr;
  own_multiplexer_ = other.own_multiplexer_;
  notify_ = other.notify_;
  result_ = other.result_;
  deadline_ = other.deadline_;
  fd_ = other.fd_;
  kind_ = other.kind_;
  quiet_ = other.quiet_;
  multishot_ = other.multishot_; // message_link_ stays: it is about this object's own members
  other.fd_ = -1;
  return *this;
}

void io_operation::misused_in_flight(char const* message) noexcept {
  detail::broken_precondition("!in_flight()", message, __FILE__, __LINE__);
}

// ---- an atomic form, between the call of set_done and its return ------------------------------------------

io_operation::ending*& io_operation::ending::innermost() noexcept {
  static constinit thread_local ending* first = nullptr;
  return first;
}

io_operation::ending::ending(io_operation& op) noexcept : op_(&op), outer_(std::exchange(innermost(), this)) {
  op.set(bit_completed | bit_ending);
}

io_operation::ending::~ending() {
  innermost() = outer_;
  // One step: as soon as it has finished another thread may destroy it.
  if (op_ != nullptr) op_->state().fetch_xor(bit_ending | bit_finished, std::memory_order_acq_rel);
}

bool io_operation::ends_here() const noexcept {
  for (ending const* e = ending::innermost(); e != nullptr; e = e->outer_)
    if (e->op_ == this) return true;
  return false;
}

bool io_operation::leave_ending() noexcept {
  if ((load() & (bit_ending | bit_finished)) == 0) return false;
  for (ending* e = ending::innermost(); e != nullptr; e = e->outer_) {
    if (e->op_ != this) continue;
    e->op_ = nullptr;
    state().fetch_xor(bit_ending | bit_finished, std::memory_order_acq_rel);
    return true;
  }
  if (!is_marked_finished()) multiplexer()->finish(*this);
  return true;
}

std::uint32_t io_operation::state_after_ending(char const* misused) noexcept {
  if (!leave_ending()) misused_in_flight(misused);
  return load();
}

// ---- running ----------------------------------------------------------------------------------------------

io_multiplexer& io_operation::chosen(io_multiplexer* m) const noexcept {
  return detail::choose(own_multiplexer_, m);
}

void io_operation::start_on(io_multiplexer& m) noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  links.is = driver::operation_links::marks{};
  started_at([]() noexcept -> std::int64_t { return sys::steady_now(); });
  static constexpr auto begin = [] [[gnu::always_inline]] (io_operation & op, io_multiplexer & runs,
                                                           std::uint32_t begun) noexcept {
    op.runner().store(&runs, std::memory_order_relaxed);
    // Release; pairs with started(): a stop may come from another thread.
    op.state().store(begun, std::memory_order_release);
    [[maybe_unused]] auto const at = [&op](auto& member) noexcept {
      return static_cast<int>(reinterpret_cast<char const*>(&member) - reinterpret_cast<char const*>(&op));
    };
    UNIO_PROBE(operation_started, &op, at(op.faces_), at(op.fd_), at(op.result_));
    if (driver::is_recording()) [[unlikely]]
      return driver::start_recorded(op, runs);
    runs.start(op);
  };
  static constexpr auto begin_atomic = [] [[gnu::noinline]] (io_operation & op,
                                                             io_multiplexer & runs) noexcept {
    begin(op, runs.of_this_thread(), op.common_ ? bit_started | bit_takeable : bit_started);
  };
  is_atomic() ? begin_atomic(*this, m) : begin(*this, m, bit_started);
}

[[gnu::flatten]] void io_operation::start(io_multiplexer* m) noexcept { start_on(chosen(m)); }

void io_operation::refuse(int native_code) noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  if (faces_->begin != nullptr) faces_->begin(*this);
  result_ = native_code;
  state().store(bit_started | bit_completed | bit_finished, std::memory_order_relaxed);
}

io_status io_operation::look() noexcept { return multiplexer()->poll(*this); }

void io_operation::cancel() noexcept {
  std::uint32_t const s = load();
  if ((s & (bit_started | bit_finished)) == bit_started) multiplexer()->cancel(*this);
}

int io_operation::canceled_code() const noexcept { return links.is.timed_out ? -ETIMEDOUT : -ECANCELED; }

failure io_operation::failed() const noexcept {
  // Not worth a copy of the object: those happen all the time, and are no errors.
  bool const is_ordinary = result_ == -EAGAIN || result_ == -ECANCELED;
  if (faces_->object != nullptr && !is_ordinary) {
    detail::failed_object o;
    if (faces_->object(*this, o)) return detail::failed(result_, faces_->name, o);
  }
  return detail::failed(result_, faces_->name, fd_);
}

void io_operation::told_after_abandon(io_operation& op, unsigned events) noexcept {
  if ((events & value) != 0 && op.faces_->reclaim != nullptr) op.faces_->reclaim(op);
  if ((events & done) != 0) op.mark_finished();
}

void io_operation::abandon_in_flight() noexcept {
  if (leave_ending()) return;
  // From here on the receiver is not called; what was obtained is reclaimed.
  if (is_atomic()) { // another thread may be calling the receiver
    state().fetch_or(bit_abandoned, std::memory_order_acq_rel);
  } else {
    notify_ = &told_after_abandon;
  }
  multiplexer()->abandon(*this);
  // A child made by fork has only the memory of its parent's operations: there is nothing to wait for.
  state().fetch_or(bit_finished, std::memory_order_relaxed);
}

void io_operation::run_blocking() noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  // The receiver is not called for this run, but for the next one.
  auto const untold = [this](auto run) noexcept {
    notification const receiver = notify_;
    bool const was_quiet = quiet_;
    quiet_ = true;
    notify_ = [](io_operation& op, unsigned events) noexcept {
      if ((events & done) != 0) op.mark_finished();
    };
    run();
    quiet_ = was_quiet;
    notify_ = receiver;
  };
  if (own_multiplexer_ != nullptr)
    return untold([this] {
      own_multiplexer_->join_in(); // this thread runs it while it waits
      start();
      if (!finished()) multiplexer()->finish(*this);
    });
  links.is = driver::operation_links::marks{};
  state().store(bit_started, std::memory_order_relaxed);
  io_multiplexer* const threads_own = detail::shortcut.get();
  if (threads_own != nullptr && driver::has_to_move(*threads_own)) {
    runner().store(threads_own, std::memory_order_relaxed); // what it is made of is started there
    untold([&] { driver::run_driving(*this, *threads_own); });
  } else {
    driver::run_inline(*this);
  }
  mark_finished();
}

// ---- a coroutine waits for it -----------------------------------------------------------------------------
//
//   await_ready ── start ──► finished: continues without suspending
//        │                        ▲
//        └► suspend ──► notify ───┴► dispatch: at once, or queued as a resumption
//              │           ▲
//              └── stop ───┘ (cancel)
//
// A stop may come from any thread, so where one is possible the operation is of the atomic kind. So it is
// where several threads run the multiplexer: once its coroutine is suspended, another one may take it over.
// If another thread runs its multiplexer, the operation is started last of all, when the coroutine is
// suspended, because it may resume there at once.

namespace detail {

// In each of these, what is rarer is a function of its own, called last: the common case keeps nothing across
// a call.

void awaiting::start(io_operation& op) noexcept {
  static constexpr auto on_another = [] [[gnu::noinline]] (awaiting & self, io_operation & o,
                                                           io_multiplexer & runs) noexcept {
    // One of several threads finds its place there, once.
    io_multiplexer& here = runs.is_shared() ? runs.of_this_thread() : runs;
    bool const elsewhere = &here == &runs && runs.runs_elsewhere();
    if (elsewhere || runs.is_shared()) o.set_atomic(self.next_message_);
    if (elsewhere) return o.set_quiet(false);
    o.set_quiet();
    o.start_on(here);
  };
  static constexpr auto with_care = [] [[gnu::noinline]] (awaiting & self, io_operation & o) noexcept {
    environment const& e = *self.environment_;
    if (e.stop.stop_requested()) return o.refuse(-ECANCELED);
    if (e.stop.stop_possible()) o.set_atomic(self.next_message_);
    on_another(self, o, choose(o.own_multiplexer_, e.multiplexer));
  };
  environment const& e = *environment_;
  io_multiplexer* const own = shortcut.get();
  io_multiplexer* m = op.own_multiplexer_ != nullptr ? op.own_multiplexer_ : e.multiplexer;
  if (m == nullptr) m = own;
  if (e.stop.stop_possible() || m == nullptr) return with_care(*this, op);
  if (m != own) return on_another(*this, op, *m);
  op.set_quiet();
  op.start_on(*m);
}

bool awaiting::suspend(io_operation& op, std::coroutine_handle<> h) noexcept {
  static constexpr auto with_care = [] [[gnu::noinline]] (awaiting & self,
                                                          io_operation & o) noexcept -> bool {
    stop_token const stop = self.environment_->stop;
    bool const elsewhere = !o.started();
    bool const stopped = stop.stop_possible() && !self.attach(stop);
    if (elsewhere && stopped) return o.refuse(-ECANCELED), false;
    o.set_awaited(true);
    if (elsewhere) {
      // From here on it may end, and its coroutine too, at any moment.
      o.start(self.environment_->multiplexer);
      return true;
    }
    if (stopped) o.cancel();
    if (o.is_atomic()) o.let_be_taken(); // and resumed, at any moment
    return true;
  };
  handle_ = h;
  op.awaited_by(h);
  UNIO_PROBE(coroutine_suspended, &op, h.address());
  if (environment_ == nullptr) return true;
  if (environment_->stop.stop_possible() || !op.started()) return with_care(*this, op);
  op.set_awaited(true);
  if (op.is_atomic()) op.let_be_taken_unasked(); // and resumed, at any moment
  return true;
}

void awaiting::stop(io_operation& op) noexcept {
  while (!op.started()) sys::sched_yield(); // suspend() is starting it on another thread
  op.cancel();
}

void awaiting::notify(io_operation& op) noexcept {
  static constexpr auto go_on = [] [[gnu::always_inline]] (awaiting & self, io_operation & o) noexcept {
    environment const* const e = self.environment_;
    std::coroutine_handle<> const h = std::exchange(self.handle_, nullptr);
    UNIO_PROBE(coroutine_resumed, &o, h.address());
    if (e == nullptr) {
      o.mark_finished();
      return resume(h);
    }
    static_assert(sizeof(resumption) <= sizeof(driver::operation_links) &&
                  alignof(resumption) <= alignof(driver::operation_links));
    // The links of an operation that has ended are free: the node that resumes the coroutine takes their
    // place.
    auto* const r = ::new (static_cast<void*>(&o.links)) resumption(h, e);
    executor_ref const executor = e->executor;
    o.mark_finished();
    resume(executor.dispatch(*r));
  };
  static constexpr auto detached = [] [[gnu::noinline]] (awaiting & self, io_operation & o) noexcept {
    self.detach(self.environment_->stop);
    go_on(self, o);
  };
  bool const may_be_stopped = environment_ != nullptr && environment_->stop.stop_possible();
  may_be_stopped ? detached(*this, op) : go_on(*this, op);
}

void awaiting::leave(io_operation& op) noexcept {
  bool const queued = handle_ == nullptr; // it has ended, and notify() was the last to use this object
  if (!queued) {
    if (environment_->stop.stop_possible()) detach(environment_->stop);
    return;
  }
  auto& r = *std::launder(reinterpret_cast<resumption*>(&op.links));
  r.take_back(environment_->executor);
}

} // namespace detail
} // namespace unio
