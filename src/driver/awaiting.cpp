// A coroutine that waits for an operation: where it resumes, and what may stop it.
//
//   await_ready ── start ──► finished: continues without suspending
//        │                        ▲
//        └► suspend ──► notify ───┴► dispatch: at once, or queued as a resumption
//              │           ▲
//              └── stop ───┘ (cancel)
//
// A stop may come from any thread, so where one is possible the operation is of the atomic kind. If another
// thread runs its multiplexer, the operation is started last of all, when the coroutine is suspended, because
// it may resume there at once.

#include "driver/this_thread.hpp"
#include "sys/calls.hpp"

#include <unio/connect.hpp>
#include <unio/detail/promise.hpp>

namespace unio::inline v0_1::detail {

void awaiting::start(io_operation& op) noexcept {
  environment const& e = *environment_;
  if (e.stop.stop_possible()) [[unlikely]] {
    if (e.stop.stop_requested()) return op.refuse(-ECANCELED);
    op.set_atomic(next_message_);
  }
  io_multiplexer& m = choose(op.own_multiplexer_, e.multiplexer);
  if (is_run_elsewhere(m)) [[unlikely]] {
    op.set_quiet(false);
    return op.set_atomic(next_message_);
  }
  op.set_quiet();
  op.start(&m);
}

bool awaiting::suspend(io_operation& op, std::coroutine_handle<> h) noexcept {
  handle_ = h;
  op.awaited_by(h);
  if (environment_ == nullptr) return true;
  stop_token const stop = environment_->stop;
  bool const elsewhere = !op.started();
  bool const stopped = stop.stop_possible() && !attach(stop);
  if (elsewhere && stopped) return op.refuse(-ECANCELED), false;
  op.set_awaited(true);
  if (elsewhere) {
    op.start(environment_->multiplexer); // from here on it may end, and its coroutine too, at any moment
  } else if (stopped) {
    op.cancel();
  }
  return true;
}

void awaiting::stop(io_operation& op) noexcept {
  while (!op.started()) sys::sched_yield(); // suspend() is starting it on another thread
  op.cancel();
}

void awaiting::notify(io_operation& op) noexcept {
  environment const* const e = environment_;
  std::coroutine_handle<> const h = std::exchange(handle_, nullptr);
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

} // namespace unio::detail
