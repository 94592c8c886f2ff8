#include "core/thread_token.hpp"
#include "sys/calls.hpp"

#include <unio/connect.hpp>
#include <unio/run.hpp>
#include <unio/timer_handle.hpp>

#include <cstdio>
#include <cstdlib>

namespace unio::detail {

void unhandled(std::exception_ptr e) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    std::rethrow_exception(e);
  } catch (std::exception const& what) {
    std::fprintf(stderr, "unio: an exception left a task that nobody waits for: %s\n", what.what());
  } catch (...) {
    std::fprintf(stderr, "unio: an exception left a task that nobody waits for\n");
  }
#else
  (void)e;
#endif
  std::abort();
}

void throw_error(std::error_code why) { no_value(why); }

namespace {
struct nobody {
  static void set_value(io_result<void>&&) noexcept {}
  static void set_done() noexcept {}
};

} // namespace

// The wake-up may come from another thread: an operation without end keeps run() from reporting that nothing
// is pending, and the other thread cancels it. The waker says when it has left, because the waiting thread
// then destroys all of this.
result<void> blocker::wait(io_multiplexer* m) noexcept {
  if (m == nullptr) {
    for (std::uint32_t s; ((s = state_.load(std::memory_order_acquire)) & bit_woken) == 0;)
      state_.wait(s, std::memory_order_relaxed);
    return {};
  }
  if (is_awake()) return {};
  timer_handle never(deadline::none(), m);
  auto sleep = connect(atomic_async_wait(never), nobody());
  sleep.start();
  sleep_ = &sleep;
  thread_ = this_thread_token();
  if ((state_.fetch_or(bit_running, std::memory_order_acq_rel) & bit_woken) != 0) return {};
  std::error_code why;
  while (!is_awake() && !why) {
    if (result<int> const r = m->run(); !r.has_value()) {
      why = r.error();
    } else if (sleep.finished() && !is_awake()) {
      why = sleep.result().error(); // it could not be started
    }
  }
  if ((state_.fetch_and(~bit_running, std::memory_order_acq_rel) & bit_woken) == 0) return why;
  while ((state_.load(std::memory_order_acquire) & bit_left) == 0) sys::sched_yield(); // pairs with wake()
  return {};
}

void blocker::wake() noexcept {
  std::uint32_t const before = state_.fetch_or(bit_woken, std::memory_order_acq_rel);
  if ((before & bit_running) == 0) return state_.notify_one();
  if (thread_ != this_thread_token()) sleep_->cancel();
  state_.fetch_or(bit_left, std::memory_order_release);
}

result<io_multiplexer*> run_while_waiting(io_multiplexer* m) noexcept {
  if (m == nullptr || m->run_by() == io_multiplexer::runner::this_thread) return m;
  if (m->run_by() == io_multiplexer::runner::another_thread || m->capabilities().threads > 1) return nullptr;
  if (result<int> const r = m->try_run(0); !r.has_value()) return r.error();
  return m;
}

std::coroutine_handle<> run_on_base::go(std::coroutine_handle<> child, std::coroutine_handle<> h,
                                        environment const& e, executor_ref there) noexcept {
  caller_ = h;
  callers_ = &e;
  environment_ = e;
  environment_.executor = there;
  if (io_multiplexer* const m = there.multiplexer(); m != nullptr) environment_.multiplexer = m;
  if (there == e.executor) return child;
  environment_.abandon = &lost;
  environment_.root = this;
  // The task must be stoppable from here, and may then be waiting for anything.
  environment_.stop = stop_.get_token();
  if (e.stop.stop_possible()) stop_from_caller_.emplace(e.stop, pass_on{stop_});
  place_.store(place::there, std::memory_order_relaxed);
  hop_ = resumption(child, &environment_);
  return there.dispatch(hop_); // from here on the task may return at any moment, and the caller resume
}

std::coroutine_handle<> run_on_base::child_ended() noexcept {
  if (place_.load(std::memory_order_acquire) == place::here) return caller_;
  stop_from_caller_.reset();
  executor_ref const back = callers_->executor;
  hop_ = resumption(caller_, callers_);
  place expected = place::there;
  if (place_.compare_exchange_strong(expected, place::returning, std::memory_order_acq_rel))
    return back.dispatch(hop_);
  ended_.wake(); // this object may be destroyed by now
  return std::noop_coroutine();
}

// The multiplexer there has ended and dropped the task, which will never be resumed.
void run_on_base::lost(environment const& e) noexcept {
  auto& self = *static_cast<run_on_base*>(e.root);
  self.is_lost_ = true;
  resume(self.child_ended());
}

void run_on_base::call_back() noexcept {
  place expected = place::there;
  if (!place_.compare_exchange_strong(expected, place::called_back, std::memory_order_acq_rel))
    return hop_.take_back(callers_->executor);
  stop_.request_stop();
  // The task may need this thread in order to end.
  auto const runs = [](io_multiplexer* m) {
    return m != nullptr && m->run_by() == io_multiplexer::runner::this_thread;
  };
  io_multiplexer* const here = runs(environment_.multiplexer) ? environment_.multiplexer
                               : runs(callers_->multiplexer)  ? callers_->multiplexer
                                                              : nullptr;
  if (!ended_.wait(here).has_value()) (void)ended_.wait();
}

} // namespace unio::detail
