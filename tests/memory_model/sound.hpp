// What is expected of every exploration that looks for errors.

#pragma once

#include "memory_model/checker.hpp"
#include "support/test.hpp"

namespace memory_model {

struct claims {
  bool is_complete = true; ///< every execution was tried
  bool is_ordered = false; ///< no store had another place to go
};

/// No execution went wrong, and not all were cut short. Prints how many there were.
inline void expect_sound(report const& r, claims c = {}) {
  EXPECT_EQ(r.error, "") << r.how;
  EXPECT_TRUE(r.is_complete || !c.is_complete);
  if (c.is_ordered) EXPECT_EQ(r.unordered, 0U);
  EXPECT_GT(r.executions, r.pruned);
  auto const number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("[ executed ] %llu executions, %llu cut short, %llu unordered\n", number(r.executions),
              number(r.pruned), number(r.unordered));
}

} // namespace memory_model
