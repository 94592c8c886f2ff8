#include "core/dropping.hpp"
#include "core/thread_token.hpp"
#include "coro/strands.hpp"
#include "driver/engine.hpp"
#include "driver/registry.hpp"
#include "sys/give_way.hpp"

#include <unio/connect.hpp>
#include <unio/detail/away.hpp>
#include <unio/timer_handle.hpp>

namespace unio::inline v0_1::detail {
namespace {
struct nobody {
  static void set_value(io_result<void>&&) noexcept {}
  static void set_done() noexcept {}
};

// Of an atomic form, but no other thread takes it over while this one is away: its end is to end a run()
// here.
class stays_here : message_link<stays_here>, public async_wait {
  using link = message_link<stays_here>;

 public:
  explicit stays_here(timer_handle& t) noexcept : async_wait(t) { set_atomic(link::next_message_); }
  stays_here(stays_here&& other) noexcept : link(), async_wait(static_cast<async_wait&&>(other)) {
    set_atomic(link::next_message_);
  }
};
} // namespace

// The wake-up may come from another thread: an operation without end keeps run() from reporting that nothing
// is pending, and the other thread cancels it. The waker says when it has left, because the waiting thread
// then destroys all of this.
[[gnu::cold]] result<void> blocker::wait(io_multiplexer* m) noexcept {
  if (m == nullptr) {
    for (std::uint32_t s; ((s = state_.load(std::memory_order_acquire)) & bit_woken) == 0;)
      state_.wait(s, std::memory_order_relaxed);
    return {};
  }
  if (is_awake()) return {};
  timer_handle never(deadline::none(), m);
  auto sleep = connect(stays_here(never), nobody());
  sleep.start();
  sleep_ = &sleep;
  thread_ = this_thread_token();
  if ((state_.fetch_or(bit_running, std::memory_order_acq_rel) & bit_woken) != 0) return {};
  failure why;
  // Of several threads, a wake() is for a run() of another one.
  driver::engine* const one_of_several =
      m->is_shared() ? driver::registry::find(m->of_this_thread()) : nullptr;
  while (!is_awake() && !why) {
    result<int> const r = one_of_several != nullptr ? one_of_several->run_in_call() : m->run();
    if (!r.has_value()) {
      why = r.error();
    } else if (sleep.finished() && !is_awake()) {
      why = sleep.result().error(); // it could not be started
    }
  }
  if ((state_.fetch_and(~bit_running, std::memory_order_acq_rel) & bit_woken) == 0) return why;
  sys::await_other(
      [this] { return (state_.load(std::memory_order_acquire) & bit_left) != 0; }); // pairs: wake()
  return {};
}

void blocker::wake() noexcept {
  std::uint32_t const before = state_.fetch_or(bit_woken, std::memory_order_acq_rel);
  if ((before & bit_running) == 0) return state_.notify_one();
  if (thread_ != this_thread_token()) sleep_->cancel();
  state_.fetch_or(bit_left, std::memory_order_release);
}

void away::leave(std::coroutine_handle<> h, environment const& e) noexcept {
  with_ = &e;
  hop_ = resumption(h, &e);
  state_.leave();
  if (e.stop.stop_possible()) stop_from_caller_.emplace(e.stop, pass_on{this});
}

std::coroutine_handle<> away::arrive() noexcept {
  if (stopping_.load(std::memory_order_relaxed) == this_thread_token()) {
    arrived_in_stop_ = true;
    return std::noop_coroutine();
  }
  stop_from_caller_.reset(); // waits for a stop that another thread passes on
  executor_ref const executor = with_->executor;
  switch (state_.arrive()) {
    case away_state<>::next::nothing:
      break;
    case away_state<>::next::resume:
      return dispatch_outside_of_strands(executor, hop_);
    case away_state<>::next::wake:
      ended_.wake(); // this object may be destroyed by now
  }
  return std::noop_coroutine();
}

// If the work ends inside the request, the coroutine resumes later: the requesting code is still on the
// stack, with sources that may be the coroutine's.
void away::pass_on_stop() noexcept {
  stopping_.store(this_thread_token(), std::memory_order_relaxed);
  stop_.request_stop();
  stopping_.store(nullptr, std::memory_order_relaxed);
  if (!arrived_in_stop_) return;
  stop_from_caller_.reset();
  executor_ref const executor = with_->executor;
  switch (state_.arrive()) {
    case away_state<>::next::nothing:
      return;
    case away_state<>::next::resume:
      return executor.post(hop_);
    case away_state<>::next::wake:
      ended_.wake();
  }
}

void away::call_back(io_multiplexer* theirs) noexcept {
  if (state_.is_here()) return;
  if (!state_.call_back()) return hop_.take_back(with_->executor);
  stop_.request_stop();
  // The work may need this thread in order to end.
  auto const runs = [](io_multiplexer* m) {
    return m != nullptr && m->run_by() == io_multiplexer::runner::this_thread;
  };
  io_multiplexer* const here = runs(theirs)               ? theirs
                               : runs(with_->multiplexer) ? with_->multiplexer
                                                          : nullptr;
  if (dropping::is_about(here)) // and nothing else brings it to an end
    return sys::await_other([&] {
      while (!ended_.is_awake() && dropping::one()) continue;
      return ended_.is_awake();
    });
  if (!ended_.wait(here).has_value()) (void)ended_.wait();
}

} // namespace unio::detail
