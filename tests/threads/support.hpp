// What the tests of simulated threads share: a run over many seeds, and the systems that a program runs on.

#pragma once

#include <unio/testing.hpp>
#include <unio/testing_threads.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace threads_tests {

using unio::testing::exploration;
using unio::testing::explore;
using unio::testing::require;
using unio::testing::run_end;
using unio::testing::thread_options;

/// More seeds than a plain run has: for scripts/check-planted.
inline std::uint64_t seeds(std::uint64_t usual) noexcept {
  char const* const text = std::getenv("UNIO_THREADS_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

/// No seed makes it fail.
inline void expect_no_failure(std::uint64_t usual, std::function<void()> const& program) {
  exploration const e = explore({.seeds = seeds(usual)}, program);
  EXPECT_TRUE(e.passed()) << e.report;
}

/// A seed is found that makes it end so.
inline exploration expect_end(run_end end, std::uint64_t at_most, std::function<void()> const& program) {
  exploration e = explore({.seeds = at_most}, program);
  EXPECT_FALSE(e.passed()) << "none of " << e.runs << " seeds";
  EXPECT_EQ(e.end, end) << e.report;
  return e;
}

} // namespace threads_tests
