#include "sys/give_way.hpp"

#include <unio/task_group.hpp>

namespace unio::inline v0_1 {

// Held for a few instructions.
void task_group::lock() noexcept {
  sys::await_other(
      [this] { return !locked_.exchange(true, std::memory_order_acquire); }); // pairs with unlock()
}

void task_group::unlock() noexcept { locked_.store(false, std::memory_order_release); }

namespace {
constinit thread_local unsigned tasks_begin = 0; // inside of each other, on this thread
} // namespace

bool task_group::is_deep() noexcept { return tasks_begin >= 16; }

void task_group::run(detail::group_member& m, std::coroutine_handle<> child) noexcept {
  left_.fetch_add(1, std::memory_order_relaxed);
  lock();
  m.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &m;
  first_ = &m;
  unlock();
  detail::resume_scope const scope;
  ++tasks_begin;
  child.resume();
  --tasks_begin;
}

void task_group::replace(detail::group_member& m, detail::group_member& by) noexcept {
  lock();
  by.next_ = m.next_;
  by.previous_ = m.previous_;
  (by.previous_ != nullptr ? by.previous_->next_ : first_) = &by;
  if (by.next_ != nullptr) by.next_->previous_ = &by;
  unlock();
}

void task_group::leave(detail::group_member& m) noexcept {
  lock();
  (m.previous_ != nullptr ? m.previous_->next_ : first_) = m.next_;
  if (m.next_ != nullptr) m.next_->previous_ = m.previous_;
  unlock();
}

void task_group::fail(std::exception_ptr e) noexcept {
  lock();
  bool const first = first_failure_ == nullptr;
  if (first) first_failure_ = std::move(e);
  unlock();
  if (first) ask_to_stop();
}

// If none is counted, the joining coroutine is about to resume, perhaps on another thread, and may then
// destroy the group. So the request is left to it, and the group is not touched again.
bool task_group::request_stop() noexcept {
  std::uint32_t n = left_.load(std::memory_order_relaxed);
  for (;;) {
    if (n == stop_is_left) return false;
    bool const none = n == 0;
    if (none && environment_.stop.stop_requested()) return false;
    if (left_.compare_exchange_weak(n, none ? stop_is_left : n + 1, std::memory_order_acq_rel)) {
      if (none) return true;
      break;
    }
  }
  bool const first = ask_to_stop();
  release();
  return first;
}

// The coroutine that joins counts again. Returns how many were counted before.
std::uint32_t task_group::count_again() noexcept {
  std::uint32_t const before = left_.fetch_add(1, std::memory_order_acq_rel);
  if (before != stop_is_left) return before;
  left_.fetch_sub(stop_is_left, std::memory_order_acq_rel);
  ask_to_stop();
  return 0;
}

std::coroutine_handle<> task_group::begin_to_wait(join_awaitable& joiner, std::coroutine_handle<> h,
                                                  environment const& e) noexcept {
  UNIO_EXPECTS(e.executor == environment_.executor,
               "a task_group is joined on another executor than its tasks run on");
  caller_ = h;
  joiner_ = &joiner;
  return count_down(); // the declaring coroutine counts as running until it joins
}

// The coroutine that waited is being destroyed. It counts as running again.
void task_group::forget_to_wait() noexcept {
  stop_listening(); // waits for a stop in progress from above
  joiner_ = nullptr;
  bool const had_ended = count_again() == 0;
  // Then request_stop() was the last to hold the group, perhaps on another thread, which is about to post its
  // caller.
  if (had_ended) sys::await_other([this] { return is_posted(); });
  take_back();
  gone_on();
  listen_again();
}

joined task_group::end_to_wait(bool stopped) {
  joiner_ = nullptr;
  if (is_waiting()) { // it was suspended, and then none were left
    gone_on();
    count_again();
    listen_again();
  }
  if (first_failure_ != nullptr) [[unlikely]]
    detail::rethrow(std::exchange(first_failure_, nullptr));
  if (stopped) return detail::to_error_code(-ECANCELED);
  return {};
}

task_group::~task_group() {
  if (joiner_ != nullptr) joiner_->forget_group(); // it will never resume
  bool const joined = !is_waiting() && first_ == nullptr;
  if (joined) {
    stop_listening();
    return;
  }
  tells_ = false;
  abandon();
  for (;;) {
    lock();
    detail::group_member* const m = first_;
    if (m != nullptr) first_ = m->next_;
    if (first_ != nullptr) first_->previous_ = nullptr;
    unlock();
    if (m == nullptr) break;
    m->destroy_(*m); // may drive a multiplexer, on which other tasks end, or start more
  }
  take_back();
}

} // namespace unio
