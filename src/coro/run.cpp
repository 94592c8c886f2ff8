#include <unio/connect.hpp>
#include <unio/run.hpp>
#include <unio/timer_handle.hpp>

#include <cstdio>
#include <cstdlib>
#include <system_error>

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

// A wait without end keeps run() from saying that nothing is pending: what is waited for may come from another thread.
result<void> run_loop::run_until(bool const& done) noexcept {
  timer_handle never(deadline::none(), &multiplexer_);
  auto guard = connect(async_wait(never), nobody());
  guard.start();
  while (!done) {
    if (result<int> const r = multiplexer_.run(); !r.has_value()) return r.error();
    if (guard.finished()) return guard.result().error(); // it could not even be started
  }
  return {};
}

std::coroutine_handle<> run_on_base::go(std::coroutine_handle<> child, promise_base& promise,
                                        std::coroutine_handle<> h, environment const& e,
                                        executor_ref there) noexcept {
  caller_ = h;
  back_ = e.executor;
  environment_ = e;
  environment_.executor = there;
  if (io_multiplexer* const m = there.multiplexer(); m != nullptr) environment_.multiplexer = m;
  promise.set_environment(environment_);
  promise.set_continuation(static_cast<end_listener&>(*this));
  if (there == e.executor) return child;
  // It must be possible to call it back, and then it may be waiting for anything.
  environment_.stop = stop_.get_token();
  if (e.stop.stop_possible()) stop_from_caller_.emplace(e.stop, pass_on{stop_});
  place_.store(place::there, std::memory_order_relaxed);
  hop_ = resumption(child, &environment_);
  return there.dispatch(hop_); // from here on it may return at any moment, and the caller go on
}

std::coroutine_handle<> run_on_base::ended(end_listener& l) noexcept {
  auto& self = static_cast<run_on_base&>(l);
  if (self.place_.load(std::memory_order_acquire) == place::here) return self.caller_;
  self.stop_from_caller_.reset();
  executor_ref const back = self.back_;
  self.hop_ = resumption(self.caller_, &self.environment_);
  place expected = place::there;
  if (self.place_.compare_exchange_strong(expected, place::returning, std::memory_order_acq_rel))
    return back.dispatch(self.hop_);
  if (self.environment_.multiplexer != nullptr &&
      self.environment_.multiplexer->run_by() == io_multiplexer::runner::this_thread) {
    self.has_ended_ = true;
  } else {
    self.ended_.wake(); // and this is gone
  }
  return std::noop_coroutine();
}

void run_on_base::call_back() noexcept {
  place expected = place::there;
  if (!place_.compare_exchange_strong(expected, place::called_back, std::memory_order_acq_rel))
    return hop_.take_back(back_);
  stop_.request_stop();
  io_multiplexer* const m = environment_.multiplexer;
  if (m != nullptr && m->run_by() == io_multiplexer::runner::this_thread) {
    (void)run_loop(*m).run_until(has_ended_);
  } else {
    ended_.wait();
  }
}

} // namespace unio::detail
