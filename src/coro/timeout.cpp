// The bound of a timeout. What is counted, in this order:
//
//   the child · the starting of the timer · the timer, until it has fired or was stopped
//
// The timer is abandoned at once if the child can end only on the timer's thread; otherwise it is cancelled,
// and the caller resumes when it has ended.

#include "sys/due.hpp"

#include <unio/when.hpp>

namespace unio::inline v0_1::detail {
namespace {

bool has_come(deadline d) noexcept {
  return d.which() == deadline::kind::relative ? d.is_zero() : sys::due(d) <= sys::steady_now();
}

} // namespace

std::coroutine_handle<> timeout_base::start(std::coroutine_handle<> child, std::coroutine_handle<> h,
                                            environment const& e) noexcept {
  begin(h, e, 2);
  bool const late = has_come(deadline_);
  if (late) {
    why_ = to_error_code(-ETIMEDOUT);
    by_timer_ = ask_to_stop();
  }
  {
    resume_scope const scope;
    child.resume();
  }
  if ((state_.load(std::memory_order_acquire) & has_ended) == 0 && !late && !deadline_.is_none())
    start_timer();
  return one_ended();
}

void timeout_base::start_timer() noexcept {
  io_multiplexer& m =
      environment_.multiplexer != nullptr ? *environment_.multiplexer : this_thread::multiplexer();
  timer_handle t(deadline_, &m);
  timer_.emplace(t, *this);
  hold();
  // If one thread runs both the multiplexer and the executor, the child can end only after this has returned.
  bool const here = environment_.executor.multiplexer() == &m && !m.runs_elsewhere();
  if (!here) timer_->make_atomic();
  timer_->start();
  if (timer_->multiplexer() != &m) timer_->make_atomic(); // several threads share the multiplexer
  // The second of the two, the end of the child or this, stops the timer.
  if ((state_.fetch_or(has_timer, std::memory_order_acq_rel) & has_ended) != 0) stop_timer();
}

std::coroutine_handle<> timeout_base::child_ended() noexcept {
  if ((state_.fetch_or(has_ended, std::memory_order_acq_rel) & has_timer) != 0) stop_timer();
  return one_ended();
}

// Called by a thread that is counted.
void timeout_base::stop_timer() noexcept {
  if (timer_->finished()) return;
  if (timer_->is_atomic()) return timer_->cancel();
  timer_->abandon();
  left_.fetch_sub(1, std::memory_order_relaxed);
}

void timeout_base::timer::fired(io_operation& op, unsigned events) noexcept {
  if ((events & done) == 0) return;
  timeout_base& self = static_cast<timer&>(op).of_;
  failure const e = static_cast<timer&>(op).result().error();
  op.mark_finished();
  // A child that has ended came first, although the timer could not be stopped any more.
  if (e != condition::canceled && (self.state_.load(std::memory_order_acquire) & has_ended) == 0) {
    self.why_ = e ? e : failure(to_error_code(-ETIMEDOUT));
    self.by_timer_ = self.ask_to_stop();
  }
  self.release_from_elsewhere();
}

void timeout_base::abandon_timer() noexcept { timer_.reset(); }

} // namespace unio::detail
