#include "sys/due.hpp"

#include <unio/detail/time_limit.hpp>

#include <chrono>

namespace unio::inline v0_1::detail {

time_limit::time_limit(deadline d) noexcept : deadline_(d) {
  if (d.is_none() || d.is_zero()) return;
  due_ns_ = sys::due(d);
  deadline_ = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due_ns_));
}

bool time_limit::has_passed() const noexcept {
  return due_ns_ != deadline::forever && sys::steady_now() >= due_ns_;
}

} // namespace unio::detail
