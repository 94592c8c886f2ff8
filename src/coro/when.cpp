#include <unio/detail/children.hpp>

namespace unio::inline v0_1::detail {

void children::listen(environment const& e, std::uint32_t n) noexcept {
  environment_ = e;
  environment_.stop = stop_.get_token();
  from_ = e.stop;
  left_.store(n, std::memory_order_relaxed);
  listen_again();
}

void children::listen_again() noexcept {
  if (from_.stop_possible() && !attach(from_)) stop_.request_stop();
}

std::coroutine_handle<> children::count_down() noexcept {
  // Releases what this child has done to the last one, and acquires what the others have done.
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
  stop_listening();
  return caller_;
}

bool children::hold() noexcept {
  std::uint32_t n = left_.load(std::memory_order_relaxed);
  while (n != 0 && !left_.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) continue;
  return n != 0;
}

bool children::leave_last() noexcept {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  stop_listening();
  back_ = resumption(caller_, &environment_);
  posted_.store(true, std::memory_order_release);
  return true;
}

void children::release() noexcept {
  executor_ref const executor = environment_.executor;
  if (leave_last()) executor.post(back_); // from here on the caller may resume, and destroy this object
}

void children::release_from_elsewhere() noexcept {
  executor_ref const executor = environment_.executor;
  if (leave_last()) executor.dispatch(back_).resume();
}

void children::stop_came(stop_node& n) noexcept {
  auto& self = static_cast<children&>(n);
  if (!self.hold()) return; // the last has ended
  self.stop_.request_stop();
  self.release();
}

void children::abandon() noexcept {
  stop_listening();
  left_.fetch_add(1, std::memory_order_relaxed); // a child that ends before that is not the last
  stop_.request_stop();                          // all that are cancelled are waited for
}

} // namespace unio::detail
