// How far apart the stack was at its extremes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace test {

/// Between the calls of look(), whatever a sanitizer does to local variables.
class stack_extent {
 public:
  [[gnu::noinline]] void look() {
    auto const here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest_ = std::min(lowest_, here);
    highest_ = std::max(highest_, here);
  }
  [[nodiscard]] std::size_t bytes() const { return highest_ - lowest_; }

 private:
  std::uintptr_t lowest_ = static_cast<std::uintptr_t>(-1);
  std::uintptr_t highest_ = 0;
};

} // namespace test
