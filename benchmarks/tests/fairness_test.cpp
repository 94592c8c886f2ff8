// echo/: what a server's timer wrote, and what the fairness table says of a run.

#include "echo/fairness.hpp"

#include "echo/lateness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace {

using namespace benchmarks;

constexpr std::int64_t ms = 1'000'000;

histogram lateness(std::string const& text, std::int64_t begin, std::int64_t end) {
  std::istringstream in(text);
  return timer_lateness(in, begin, end);
}

sample loaded(double fewest, double most) {
  return {.elapsed_ns = 1e9,
          .value = 5,
          .extra = {{"requests/s", 1000},
                    {"p50 µs", 10},
                    {"p99 µs", 20},
                    {"p99.9 µs", 30},
                    {"fewest", fewest},
                    {"most", most},
                    {"load CPU %", 50},
                    {"load is the limit", 0},
                    {"timer p50 µs", 1},
                    {"timer p99.9 µs", 2},
                    {"slow p99 µs", 3}}};
}

double value_of(sample const& s, std::string const& name) {
  const auto f = std::ranges::find(s.extra, name, &figure::name);
  return f != s.extra.end() ? f->value : -1;
}

TEST(timer_lateness, counts_only_what_was_due_in_the_measured_part) {
  const histogram h = lateness("1000000 500\n2000000 10\n3000000 20\n4000000 900\n", 2 * ms, 4 * ms);
  EXPECT_EQ(h.total(), 2u);
  EXPECT_EQ(h.largest_ns(), 20u);
}

TEST(timer_lateness, of_a_timer_that_has_not_fired_by_the_end_is_its_lateness_by_then) {
  const histogram h = lateness("1000000 0\n", 1 * ms, 50 * ms);
  EXPECT_EQ(h.total(), 2u);
  EXPECT_EQ(h.largest_ns(), 48u * ms);
}

TEST(timer_lateness, needs_a_line_and_understands_each) {
  EXPECT_THROW(lateness("", 0, ms), std::runtime_error);
  EXPECT_THROW(lateness("1000000\n", 0, ms), std::runtime_error);
  EXPECT_THROW(lateness("1000000 x\n", 0, ms), std::runtime_error);
  EXPECT_THROW(lateness("1000000 -1\n", 0, ms), std::runtime_error);
}

TEST(fairness, has_the_tail_as_its_value_and_how_far_connections_lie_apart) {
  const sample s = fairness_of(loaded(200, 300));
  EXPECT_EQ(s.value, 30);
  EXPECT_EQ(value_of(s, "fewest"), 200);
  EXPECT_EQ(value_of(s, "most"), 300);
  EXPECT_EQ(value_of(s, "most/fewest"), 1.5);
  EXPECT_EQ(value_of(s, "timer p99.9 µs"), 2);
  EXPECT_EQ(value_of(s, "slow p99 µs"), 3);
}

TEST(fairness, of_a_connection_without_any_answer_is_a_number) {
  EXPECT_EQ(value_of(fairness_of(loaded(0, 300)), "most/fewest"), 300);
}

TEST(fairness, needs_every_figure) {
  sample s = loaded(1, 2);
  s.extra.pop_back();
  EXPECT_THROW(fairness_of(s), std::runtime_error);
}

} // namespace
