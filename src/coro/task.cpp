#include "core/resuming.hpp"
#include "coro/strands.hpp"
#include "sys/give_way.hpp"

#include <unio/error.hpp>
#include <unio/task.hpp>

#include <cstdlib>
#include <utility>

namespace unio::inline v0_1 {

namespace {
/// A chain that this thread destroys, because one of its resumptions was dropped. While it waits, the others
/// are dropped: they go with it.
class dropped_root {
 public:
  static void drop(work& root) noexcept {
    for (dropped_root const* r = innermost; r != nullptr; r = r->outer_)
      if (r->root_ == &root) return;
    dropped_root const here(root);
    root(false);
  }

 private:
  explicit dropped_root(work& r) noexcept : root_(&r), outer_(std::exchange(innermost, this)) {}
  dropped_root(dropped_root const&) = delete;
  ~dropped_root() { innermost = outer_; }
  static constinit thread_local dropped_root const* innermost;
  work const* root_;
  dropped_root const* outer_;
};
constinit thread_local dropped_root const* dropped_root::innermost = nullptr;
} // namespace

void resumption::invoke(work& w, bool run) noexcept {
  auto& self = static_cast<resumption&>(w);
  if (run) return detail::resume(self.handle_);
  self.handle_ = nullptr;
  if (environment const* const e = self.environment_; e != nullptr && e->root != nullptr)
    dropped_root::drop(*e->root);
}

void resumption::take_back(executor_ref e) noexcept {
  if (handle_ == nullptr) return;
  sys::await_other([&] { return e.withdraw(*this); }); // another thread is queueing it
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
    return dispatch_outside_of_strands(executor, r);
  }
  static void await_resume() noexcept {}
};
} // namespace

way_back way_back::to(executor_ref executor, resumption& r, std::atomic<bool>& left) {
  co_await dispatched{executor, r, left};
}

// ---- where there are no tail calls ------------------------------------------------------------------------

namespace {
constexpr unsigned awaits_per_turn = 64;
} // namespace

constinit thread_local resuming this_threads_loop{};

bool turn_is_over() noexcept {
  if (++this_threads_loop.awaits < awaits_per_turn) return false;
  this_threads_loop.awaits = 0;
  return true;
}

void resume_from_loop(std::coroutine_handle<> h) noexcept {
  resuming& t = this_threads_loop;
  if (t.active && t.next == nullptr) {
    t.next = h;
    return;
  }
  resuming const outer = std::exchange(t, {true, t.awaits, nullptr});
  do {
    h.resume();
    h = std::exchange(this_threads_loop.next, nullptr);
  } while (h);
  this_threads_loop = {outer.active, this_threads_loop.awaits, outer.next};
}

namespace {
[[gnu::noinline]] void resume_within_scope(std::coroutine_handle<> h) noexcept {
  resume_scope const scope;
  h.resume();
}
} // namespace

void resume(std::coroutine_handle<> h) noexcept {
  if (!this_threads_loop.active) [[likely]] {
    this_threads_loop.awaits = 0;
    return h.resume(); // a loop of its own
  }
  resume_within_scope(h);
}

// Awaits counted inside count outside as well: the coroutine that waits here has not yielded.
resume_scope::resume_scope() noexcept : active_(this_threads_loop.active), next_(this_threads_loop.next) {
  this_threads_loop.active = false;
  this_threads_loop.next = nullptr;
}
resume_scope::~resume_scope() { this_threads_loop = {active_, this_threads_loop.awaits, next_}; }

} // namespace detail
} // namespace unio
