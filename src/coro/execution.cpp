// The part of senders and receivers that is no template.
//
// A coroutine that waits for a sender:
//
//   here ── before_start ──► starting ── after_start ──► waiting ── completed ─► returning ── resumed ─► here
//                               │ completed                 │ leave
//                               ▼                           ▼
//                            returning: continues        called_back: waits for completed

#include "core/thread_token.hpp"
#include "sys/calls.hpp"

#include <unio/execution.hpp>

namespace unio::detail {

bool stop_gate::open() noexcept {
  return (state_.fetch_or(bit_open, std::memory_order_acq_rel) & bit_stop) == 0;
}

void stop_gate::stop(io_operation& op) noexcept {
  if ((state_.fetch_or(bit_stop, std::memory_order_acq_rel) & bit_open) == 0) return; // open() will see it
  while (!op.started()) sys::sched_yield(); // another thread is starting it
  op.cancel();
}

std::exception_ptr canceled_exception() noexcept {
  return std::make_exception_ptr(std::system_error(ECANCELED, std::system_category()));
}

void sender_wait::before_start(std::coroutine_handle<> h, environment const& e) noexcept {
  with_ = &e;
  resume_ = resumption(h, &e);
  place_.store(place::starting, std::memory_order_relaxed);
  if (e.stop.stop_possible()) stop_from_caller_.emplace(e.stop, pass_on{this});
}

bool sender_wait::after_start() noexcept {
  place expected = place::starting;
  return place_.compare_exchange_strong(expected, place::waiting, std::memory_order_acq_rel);
}

// What a stop completes resumes later: the requesting code is still on the stack, with sources that may be
// the coroutine's.
void sender_wait::pass_on_stop() noexcept {
  stopping_.store(this_thread_token(), std::memory_order_relaxed);
  stop_.request_stop();
  stopping_.store(nullptr, std::memory_order_relaxed);
  if (!completed_by_stop_) return;
  stop_from_caller_.reset();
  executor_ref const executor = with_->executor;
  if (end_waiting()) executor.post(resume_);
}

void sender_wait::completed() noexcept {
  if (stopping_.load(std::memory_order_relaxed) == this_thread_token()) {
    completed_by_stop_ = true;
    return;
  }
  stop_from_caller_.reset(); // waits for a stop that another thread passes on
  executor_ref const executor = with_->executor;
  if (end_waiting()) resume(executor.dispatch(resume_));
}

// True: the coroutine is suspended, and to be resumed. False: this object may be destroyed by now.
bool sender_wait::end_waiting() noexcept {
  place expected = place::starting;
  if (place_.compare_exchange_strong(expected, place::returning, std::memory_order_acq_rel)) return false;
  expected = place::waiting;
  if (place_.compare_exchange_strong(expected, place::returning, std::memory_order_acq_rel)) return true;
  completed_.wake();
  return false;
}

void sender_wait::leave() noexcept {
  if (place_.load(std::memory_order_relaxed) == place::here) return;
  place expected = place::waiting;
  if (!place_.compare_exchange_strong(expected, place::called_back, std::memory_order_acq_rel))
    return resume_.take_back(with_->executor);
  stop_.request_stop();
  io_multiplexer* const m = with_->multiplexer;
  bool const here = m != nullptr && m->run_by() == io_multiplexer::runner::this_thread;
  if (!completed_.wait(here ? m : nullptr).has_value()) (void)completed_.wait();
}

} // namespace unio::detail
