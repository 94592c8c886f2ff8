#include <unio/accept_loop.hpp>

#include <algorithm>
#include <chrono>

namespace unio {

// As long as the engine waits for async_accept_many.
deadline detail::accept_pause(int times) noexcept {
  constexpr int times_that_grow = 6;
  return std::chrono::milliseconds(std::min(100, 5 << (std::min(times, times_that_grow) - 1)));
}

} // namespace unio
