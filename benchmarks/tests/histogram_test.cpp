// support/histogram.hpp: percentiles against a sorted list.

#include "support/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace {

using benchmarks::histogram;

TEST(histogram, knows_small_values_exactly) {
  histogram h;
  for (std::uint64_t ns = 0; ns < 64; ++ns) h.add(ns);
  EXPECT_EQ(h.percentile_ns(50), 31);
  EXPECT_EQ(h.percentile_ns(100), 63);
  EXPECT_EQ(h.total(), 64u);
}

TEST(histogram, is_never_below_and_at_most_a_thirty_second_above_the_true_percentile) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> durations(8, 2);
  histogram h;
  std::vector<double> all;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<std::uint64_t>(durations(random));
    h.add(ns);
    all.push_back(static_cast<double>(ns));
  }
  std::ranges::sort(all);
  for (const double percent : {0.1, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(all.size()) * percent / 100));
    const double exact = all[std::max<std::size_t>(rank, 1) - 1];
    EXPECT_GE(h.percentile_ns(percent), exact) << percent;
    EXPECT_LE(h.percentile_ns(percent), exact * (1 + 1.0 / 32) + 1) << percent;
  }
  EXPECT_EQ(static_cast<double>(h.largest_ns()), all.back());
}

TEST(histogram, takes_the_largest_number) {
  histogram h;
  h.add(~std::uint64_t{0});
  EXPECT_EQ(h.largest_ns(), ~std::uint64_t{0});
  EXPECT_EQ(h.percentile_ns(50), static_cast<double>(~std::uint64_t{0}));
}

TEST(histogram, merges) {
  histogram a;
  histogram b;
  a.add(10);
  b.add(1000);
  b.add(2000);
  a.merge(b);
  EXPECT_EQ(a.total(), 3u);
  EXPECT_EQ(a.largest_ns(), 2000u);
  std::uint64_t counted = 0;
  for (benchmarks::bucket const& each : a.buckets()) counted += each.count;
  EXPECT_EQ(counted, 3u);
}

TEST(histogram, says_nothing_of_nothing) {
  const histogram h;
  EXPECT_EQ(h.percentile_ns(99), 0);
  EXPECT_TRUE(h.buckets().empty());
}

} // namespace
