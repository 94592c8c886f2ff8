// deadline.hpp: every span and moment ends up as nanoseconds, at the ends of the range too.

#include "support/test.hpp"

namespace {

using namespace test;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t second = 1'000'000'000;

static_assert(sizeof(deadline) == 16);

struct clock_that_stands {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<clock_that_stands>;
  static time_point now() { return time_point(7h); }
};

// As file_clock, whose epoch is yet to come.
struct clock_before_its_epoch {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<clock_before_its_epoch>;
  static time_point now() { return time_point(-std::chrono::hours(24 * 365 * 150)); }
};

TEST(deadline, is_none_unless_told_otherwise) {
  EXPECT_TRUE(deadline().is_none());
  EXPECT_TRUE(deadline::none().is_none());
  EXPECT_FALSE(deadline().is_zero());
  EXPECT_EQ(deadline().due(5, 5), deadline::forever);
}

TEST(deadline, of_zero_means_not_to_wait) {
  EXPECT_TRUE(deadline::zero().is_zero());
  EXPECT_TRUE(deadline(0s).is_zero());
  EXPECT_EQ(deadline::zero().due(42, 0), 42);
}

TEST(deadline, from_a_span_counts_from_the_start) {
  deadline const d = 10ms;
  EXPECT_EQ(d.which(), deadline::kind::relative);
  EXPECT_EQ(d.nanoseconds(), 10'000'000);
  EXPECT_EQ(d.due(7, 0), 10'000'007);
  EXPECT_EQ(deadline(1.5s).nanoseconds(), 1'500'000'000);
}

TEST(deadline, that_is_negative_is_zero) {
  EXPECT_TRUE(deadline(-1ns).is_zero());
  EXPECT_TRUE(deadline(std::chrono::hours::min()).is_zero());
  EXPECT_TRUE(deadline(std::chrono::nanoseconds::min()).is_zero());
  EXPECT_TRUE(deadline(std::chrono::duration<double>(-1e300)).is_zero());
}

TEST(deadline, that_is_too_far_is_for_ever) {
  EXPECT_TRUE(deadline(std::chrono::hours::max()).is_none());
  EXPECT_TRUE(deadline(std::chrono::nanoseconds::max()).is_none());
  EXPECT_TRUE(deadline(std::chrono::duration<std::uint64_t>(~std::uint64_t{0})).is_none());
  EXPECT_TRUE(deadline(std::chrono::duration<double>(1e300)).is_none());
  EXPECT_TRUE(deadline(std::chrono::steady_clock::time_point::max()).is_none());
  EXPECT_TRUE(deadline(std::chrono::system_clock::time_point::max()).is_none());
}

TEST(deadline, a_little_below_the_limit_is_kept) {
  deadline const d = std::chrono::nanoseconds(most - 1'000'000);
  EXPECT_FALSE(d.is_none());
  EXPECT_EQ(d.nanoseconds(), most - 1'000'000);
}

TEST(deadline, does_not_overflow_when_the_clock_is_added) {
  deadline const d = std::chrono::nanoseconds(most - 1'000'000);
  EXPECT_EQ(d.due(2'000'000, 0), deadline::forever);
  EXPECT_EQ(d.due(0, 0), most - 1'000'000);
  EXPECT_EQ(deadline(1s).due(most, 0), deadline::forever);
  EXPECT_EQ(deadline(1s).due(most - second, 0), most);
}

// duration_cast() multiplies first: 300 days of samples would have been nonsense.
TEST(deadline, of_a_unit_that_is_no_whole_number_of_nanoseconds_does_not_overflow) {
  using samples = std::chrono::duration<std::int64_t, std::ratio<1, 44'100>>;
  std::int64_t const year = 365 * 24 * 3600;
  EXPECT_EQ(deadline(samples(44'100 * year)).nanoseconds(), year * second);
  EXPECT_EQ(deadline(samples(441)).nanoseconds(), 10'000'000);
  EXPECT_EQ(deadline(samples(1)).nanoseconds(), 22'675);
  EXPECT_TRUE(deadline(samples::max()).is_none());
  EXPECT_TRUE(deadline(samples::min()).is_zero());
}

TEST(deadline, from_a_steady_moment_is_that_moment) {
  deadline const d = std::chrono::steady_clock::time_point(5s);
  EXPECT_EQ(d.which(), deadline::kind::steady);
  EXPECT_EQ(d.due(99 * second, 0), 5 * second);
  std::int64_t const earliest = deadline(std::chrono::steady_clock::time_point::min()).due(0, 0);
  EXPECT_LT(earliest, 0);
  std::int64_t left = 0;
  EXPECT_FALSE(__builtin_sub_overflow(earliest, most / 2, &left)) << "what a wait computes";
}

TEST(deadline, from_a_system_moment_is_moved_to_the_steady_clock) {
  deadline const d = std::chrono::system_clock::time_point(105s);
  EXPECT_EQ(d.due(3 * second, 100 * second), 8 * second);
  EXPECT_EQ(d.due(3 * second, 200 * second), 3 * second); // it has passed
  EXPECT_EQ(deadline(std::chrono::system_clock::time_point::min()).due(3 * second, 100 * second), 3 * second);
}

TEST(deadline, from_another_clock_is_the_span_that_is_left) {
  deadline const d = clock_that_stands::now() + 1h;
  EXPECT_EQ(d.which(), deadline::kind::relative);
  EXPECT_EQ(d.nanoseconds(), 3600 * second);
  EXPECT_TRUE(deadline(clock_that_stands::now() - 1h).is_zero());
  EXPECT_TRUE(deadline(clock_that_stands::time_point::min()).is_zero());
  EXPECT_TRUE(deadline(clock_that_stands::time_point::max()).is_none());
  using early = clock_before_its_epoch;
  EXPECT_EQ(deadline(early::now() + 1h).nanoseconds(), 3600 * second);
  EXPECT_TRUE(deadline(early::time_point::max()).is_none());
  EXPECT_TRUE(deadline(early::time_point(std::chrono::nanoseconds(most - 1))).is_none());
  EXPECT_TRUE(deadline(early::time_point::min()).is_zero());
}

} // namespace
