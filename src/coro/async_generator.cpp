// The environment that an async_generator's coroutine keeps from item to item.
//
//   asked for an item ── follow ──► the asking coroutine's stop reaches the kept source
//   the item is there ── rest ────► it does not any more
//
// What the coroutine holds over a co_yield (a task_group) is attached to the kept source, which lives as long
// as the coroutine. The asking coroutine's own source may end with the item.

#include <unio/async_generator.hpp>

namespace unio::inline v0_1::detail {

kept_environment::kept_environment(environment const& e) noexcept : stop_node(&stop_came) { follow(e); }

void kept_environment::follow(environment const& e) noexcept {
  environment_ = e;
  environment_.stop = source_.get_token();
  from_ = e.stop;
  if (state_.load(std::memory_order_acquire) == resting) {
    source_.lock(); // another thread may be ending what listens to it
    source_.forget_request();
    source_.unlock();
  }
  if (from_.stop_possible() && !attach(from_)) pass_on();
}

void kept_environment::rest() noexcept {
  if (from_.stop_possible()) detach(from_); // waits for a stop that another thread passes on
  from_ = {};
}

// May destroy this.
void kept_environment::pass_on() noexcept {
  state_.store(passing_on, std::memory_order_relaxed);
  source_.request_stop();
  if (state_.exchange(resting, std::memory_order_acq_rel) == dropped) delete this;
}

// Whatever the stop resumes on this thread may have destroyed the generator: then pass_on() is on the stack.
void kept_environment::drop() noexcept {
  rest();
  if (state_.exchange(dropped, std::memory_order_acq_rel) == resting) delete this;
}

void kept_environment::stop_came(stop_node& n) noexcept { static_cast<kept_environment&>(n).pass_on(); }

environment const& async_generator_state::keep_environment() {
  if (kept == nullptr) kept = new kept_environment(get_environment());
  return kept->get();
}

} // namespace unio::detail
