// What the tests of simulated threads share: a run over many seeds, and the systems that a program runs on.

#pragma once

#include "support/test.hpp"

#include <unio/testing.hpp>
#include <unio/testing_threads.hpp>

namespace threads_tests {

using unio::testing::exploration;
using unio::testing::explore;
using unio::testing::require;
using unio::testing::run_end;
using unio::testing::schedule_seed;
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

// ---- programs that run on epoll, with real descriptors, and in a simulated system ----

// Longer than thread_options::max_time: a thread that sleeps until then was not woken.
inline constexpr auto for_ever = std::chrono::hours(2);

inline std::unique_ptr<unio::io_multiplexer> multiplexer(int threads) {
  return std::move(unio::io_multiplexer::best_available(threads).value());
}

template <class Values> struct ignoring {
  void set_value(unio::io_result<Values>) noexcept {}
  void set_done() noexcept {}
};

inline unio::const_buffer one_byte() noexcept {
  static constexpr std::byte byte{'x'};
  return {&byte, 1};
}

inline void write_one_byte(unio::socket_handle& to) {
  while (!to.write(one_byte()).has_value()) continue;
}

enum class system_kind { epoll, simulated };

class threads_on : public ::testing::TestWithParam<system_kind> {
 protected:
  static void expect_no_failure(std::function<void()> const& program) {
    bool const simulated = GetParam() == system_kind::simulated;
    threads_tests::expect_no_failure(100, [&] {
      if (!simulated) return program();
      unio::testing::simulation const s(
          unio::testing::simulation_options::from_seed(unio::testing::schedule_seed()));
      program();
    });
  }
};

#define ON_BOTH_SYSTEMS(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(epoll, suite, ::testing::Values(system_kind::epoll)); \
  INSTANTIATE_TEST_SUITE_P(simulated, suite, ::testing::Values(system_kind::simulated))

} // namespace threads_tests

/// A test of `m`, a multiplexer of two threads, which no seed makes fail.
#define SEEDED_TEST_P(suite, name)                                               \
  static void suite##_##name##_seeded(std::unique_ptr<unio::io_multiplexer>& m); \
  TEST_P(suite, name) {                                                          \
    expect_no_failure([] {                                                       \
      auto m = ::threads_tests::multiplexer(2);                                  \
      suite##_##name##_seeded(m);                                                \
    });                                                                          \
  }                                                                              \
  static void suite##_##name##_seeded(std::unique_ptr<unio::io_multiplexer>& m)
