#include "sys/calls.hpp"

#include <unio/deadline.hpp>

std::chrono::steady_clock::time_point unio::now() noexcept {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(sys::steady_now()));
}
