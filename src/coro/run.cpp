#include <unio/async_task.hpp>
#include <unio/run.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace unio::inline v0_1::detail {

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

void throw_error(failure const& why) { no_value(why); }

bool is_bad_alloc([[maybe_unused]] std::exception_ptr const& e) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    std::rethrow_exception(e);
  } catch (std::bad_alloc const&) {
    return true;
  } catch (...) {
  }
#endif
  return false;
}

result<void> join(io_multiplexer& m) noexcept {
  m.join_in();
  if (!m.is_shared() || m.run_by() == io_multiplexer::runner::this_thread) return {};
  if (result<int> const r = m.try_run(0); !r.has_value()) return r.error();
  return {};
}

result<io_multiplexer*> run_while_waiting(io_multiplexer* m) noexcept {
  if (m == nullptr || m->run_by() == io_multiplexer::runner::this_thread) return m;
  if (m->run_by() == io_multiplexer::runner::another_thread || m->is_shared()) return nullptr;
  if (result<int> const r = m->try_run(0); !r.has_value()) return r.error();
  return m;
}

std::coroutine_handle<> run_on_base::go(std::coroutine_handle<> child, std::coroutine_handle<> h,
                                        environment const& e, executor_ref there) noexcept {
  caller_ = h;
  environment_ = e;
  environment_.executor = there;
  if (io_multiplexer* const m = there.multiplexer(); m != nullptr) environment_.multiplexer = m;
  if (there == e.executor) return child;
  environment_.root = this;
  // The task must be stoppable from here, and may then be waiting for anything.
  environment_.stop = stop_.get_token();
  leave(h, e);
  state_.leave_at_once();
  hop_ = resumption(child, &environment_);
  return there.dispatch(hop_); // from here on the task may return at any moment, and the caller resume
}

std::coroutine_handle<> run_on_base::child_ended() noexcept {
  if (state_.is_here()) return caller_;
  hop_ = resumption(caller_, with_);
  return arrive();
}

void run_on_base::lost() noexcept {
  is_lost_ = true;
  resume(child_ended());
}

} // namespace unio::detail
