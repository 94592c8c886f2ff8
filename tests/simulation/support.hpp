// What the tests on the simulation share: many seeds, and loops that cannot hang.

#pragma once

#include "support/receivers.hpp"
#include "support/test.hpp"

#include <unio/testing.hpp>

#include <gtest/gtest-spi.h>

namespace test {

using unio::testing::simulation;
using unio::testing::simulation_options;

inline bool is(std::error_code e, int number) { return e == std::error_code(number, std::system_category()); }

/// Runs the simulation until `done()`. False if nothing can happen any more, or it never ends.
template <class Done> bool run_until(simulation& s, Done done) {
  for (int turns = 0; turns != 100'000; ++turns) {
    if (done()) return true;
    unio::result<int> const r = s.multiplexer().run();
    if (!r.has_value() || (*r == 0 && !done())) return done();
  }
  return false;
}

/// Everything that was started has ended, and nothing is left behind. After the handles are closed.
inline void expect_at_rest(simulation& s) {
  for (int turns = 0; turns != 64 && s.multiplexer().try_run().value_or(0) != 0; ++turns) continue;
  unio::counters const c = s.multiplexer().counters();
  EXPECT_EQ(c.started, c.finished);
  EXPECT_EQ(s.multiplexer().complete_io().value_or(-2), 0) << "something is in flight";
  EXPECT_EQ(s.open_descriptors(), 0u);
}

/// What the seed gives, but for one option.
template <auto Member, auto Value> simulation_options with(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  o.*Member = Value;
  return o;
}

/// Runs `body(simulation&)` with many seeds, and stops at the first that fails. UNIO_SEED replays one;
/// UNIO_SEEDS asks for more of them than the suite has time for.
template <simulation_options (*Options)(std::uint64_t) noexcept = simulation_options::from_seed, class Body>
void for_seeds(std::uint64_t n, Body body) {
  char const* const only = std::getenv("UNIO_SEED");
  if (char const* const more = std::getenv("UNIO_SEEDS"); more != nullptr && n > 1)
    n = std::strtoull(more, nullptr, 10);
  std::uint64_t const first = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
  for (std::uint64_t seed = first; seed != (only != nullptr ? first + 1 : n); ++seed) {
    SCOPED_TRACE("UNIO_SEED=" + std::to_string(seed));
    simulation s(Options(seed));
    body(s);
    expect_at_rest(s);
    if (::testing::Test::HasFailure()) return;
  }
}

/// Chance for a script, apart from the simulation's own.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

/// The byte at a position of an endless stream without short repetitions.
inline std::byte byte_at(std::uint64_t position) {
  return static_cast<std::byte>((position * 0x9e3779b97f4a7c15) >> 56);
}

} // namespace test

/// A test of a simulation `s`, with so many seeds: SEEDED_TEST(suite, name, seeds) { … s … }. After `seeds`:
/// the options that for_seeds() takes.
#define SEEDED_TEST(suite, name, seeds, ...)                                            \
  static void suite##_##name##_seeded(unio::testing::simulation& s);                    \
  TEST(suite, name) { ::test::for_seeds<__VA_ARGS__>(seeds, suite##_##name##_seeded); } \
  static void suite##_##name##_seeded([[maybe_unused]] unio::testing::simulation& s)
