#include "sys/calls.hpp"

#include <unio/error.hpp>
#include <unio/task.hpp>

#include <cstdlib>

namespace unio::inline v0_1 {

void resumption::invoke(work& w, bool run) noexcept {
  auto& self = static_cast<resumption&>(w);
  if (run) return detail::resume(self.handle_);
  self.handle_ = nullptr;
  if (environment const* const e = self.environment_; e != nullptr && e->abandon != nullptr) e->abandon(*e);
}

void resumption::take_back(executor_ref e) noexcept {
  if (handle_ == nullptr) return;
  while (!e.withdraw(*this)) sys::sched_yield(); // another thread is queueing it
}

namespace detail {

void rethrow([[maybe_unused]] std::exception_ptr e) {
#if UNIO_HAS_EXCEPTIONS
  std::rethrow_exception(static_cast<std::exception_ptr&&>(e));
#else
  std::abort();
#endif
}

bool is_canceled([[maybe_unused]] std::exception_ptr const& e) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    std::rethrow_exception(e);
  } catch (std::system_error const& what) {
    return what.code() == condition::canceled;
  } catch (...) {
  }
#endif
  return false;
}

namespace {
struct dispatched {
  executor_ref executor;
  resumption& r;
  std::atomic<bool>& left;
  static bool await_ready() noexcept { return false; }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept {
    left.store(true, std::memory_order_release); // pairs with the destructor of the awaiter
    return executor.dispatch(r);
  }
  static void await_resume() noexcept {}
};
} // namespace

way_back way_back::to(executor_ref executor, resumption& r, std::atomic<bool>& left) {
  co_await dispatched{executor, r, left};
}

// ---- where there are no tail calls ------------------------------------------------------------------------

namespace {
// The innermost loop of this thread that resumes coroutines, and what it resumes next.
struct resuming {
  bool active;
  unsigned awaits; // counted since code that is no coroutine resumed one
  std::coroutine_handle<> next;
};
constinit thread_local resuming this_threads{};

constexpr unsigned awaits_per_turn = 64;
} // namespace

bool turn_is_over() noexcept {
  if (++this_threads.awaits < awaits_per_turn) return false;
  this_threads.awaits = 0;
  return true;
}

void resume_from_loop(std::coroutine_handle<> h) noexcept {
  resuming& t = this_threads;
  if (t.active && t.next == nullptr) {
    t.next = h;
    return;
  }
  resuming const outer = std::exchange(t, {true, t.awaits, nullptr});
  do {
    h.resume();
    h = std::exchange(this_threads.next, nullptr);
  } while (h);
  this_threads = {outer.active, this_threads.awaits, outer.next};
}

void resume(std::coroutine_handle<> h) noexcept {
  if (!this_threads.active) [[likely]] {
    this_threads.awaits = 0;
    return h.resume(); // a loop of its own
  }
  resume_scope const scope;
  h.resume();
}

// Awaits counted inside count outside as well: the coroutine that waits here has not yielded.
resume_scope::resume_scope() noexcept : active_(this_threads.active), next_(this_threads.next) {
  this_threads.active = false;
  this_threads.next = nullptr;
}
resume_scope::~resume_scope() { this_threads = {active_, this_threads.awaits, next_}; }

} // namespace detail
} // namespace unio
