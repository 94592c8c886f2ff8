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
  io_multiplexer* runs = &m;
  std::uint32_t begun = bit_started;
  if (is_atomic()) [[unlikely]] {
    runs = &m.of_this_thread();
    if (common_) begun |= bit_takeable;
  }
  runner().store(runs, std::memory_order_relaxed);
  // Release; pairs with started(): a stop may come from another thread.
  state().store(begun, std::memory_order_release);
  [[maybe_unused]] auto const at = [this](auto& member) noexcept {
    return static_cast<int>(reinterpret_cast<char const*>(&member) - reinterpret_cast<char const*>(this));
  };
  UNIO_PROBE(operation_started, this, at(faces_), at(fd_), at(result_));
  if (driver::is_recording()) [[unlikely]]
    return driver::start_recorded(*this, *runs);
  runs->start(*this);
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

void awaiting::start(io_operation& op) noexcept {
  environment const& e = *environment_;
  if (e.stop.stop_possible()) [[unlikely]] {
    if (e.stop.stop_requested()) return op.refuse(-ECANCELED);
    op.set_atomic(next_message_);
  }
  io_multiplexer& m = choose(op.own_multiplexer_, e.multiplexer);
  io_multiplexer* here = &m;
  if (&m != shortcut.get()) [[unlikely]] {
    if (m.is_shared()) here = &m.of_this_thread(); // which finds the thread's place there, once
    bool const elsewhere = here == &m && m.runs_elsewhere();
    if (elsewhere || m.is_shared()) op.set_atomic(next_message_);
    if (elsewhere) return op.set_quiet(false);
  }
  op.set_quiet();
  op.start_on(*here);
}

bool awaiting::suspend(io_operation& op, std::coroutine_handle<> h) noexcept {
  handle_ = h;
  op.awaited_by(h);
  UNIO_PROBE(coroutine_suspended, &op, h.address());
  if (environment_ == nullptr) return true;
  stop_token const stop = environment_->stop;
  bool const elsewhere = !op.started();
  bool const stopped = stop.stop_possible() && !attach(stop);
  if (elsewhere && stopped) return op.refuse(-ECANCELED), false;
  op.set_awaited(true);
  if (elsewhere) {
    op.start(environment_->multiplexer); // from here on it may end, and its coroutine too, at any moment
    return true;
  }
  if (stopped) op.cancel();
  if (!op.is_atomic()) return true;
  stop.stop_possible() ? op.let_be_taken() : op.let_be_taken_unasked(); // and resumed, at any moment
  return true;
}

void awaiting::stop(io_operation& op) noexcept {
  while (!op.started()) sys::sched_yield(); // suspend() is starting it on another thread
  op.cancel();
}

void awaiting::notify(io_operation& op) noexcept {
  environment const* const e = environment_;
  std::coroutine_handle<> const h = std::exchange(handle_, nullptr);
  UNIO_PROBE(coroutine_resumed, &op, h.address());
  if (e == nullptr) {
    op.mark_finished();
    return resume(h);
  }
  if (e->stop.stop_possible()) detach(e->stop);
  static_assert(sizeof(resumption) <= sizeof(driver::operation_links) &&
                alignof(resumption) <= alignof(driver::operation_links));
  // The links of an operation that has ended are free: the node that resumes the coroutine takes their place.
  auto* const r = ::new (static_cast<void*>(&op.links)) resumption(h, e);
  executor_ref const executor = e->executor;
  op.mark_finished();
  resume(executor.dispatch(*r));
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
