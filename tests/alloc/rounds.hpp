// Rounds of an operation that cost nothing once warm.

#pragma once

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace test {

/// How often a round is run: until warm, and measured.
struct repetitions {
  int warm_up = 100; // what a descriptor's history says changes within 32
  int measured = 200;
};

/// Takes the result, as a program would: a handle in it is closed.
struct receiver {
  template <class Result> void set_value(Result&& r) {
    auto const taken = std::forward<Result>(r);
    failed = failed || !taken.has_value();
  }
  void set_done() {}
  bool failed = false;
};

/// Runs `round` until warm, then expects more of them to cost nothing. `round` returns false if it failed.
template <class Round> void expect_free(char const* what, repetitions times, Round round) {
  bool fine = true;
  for (int i = 0; i < times.warm_up; ++i) fine = round() && fine;
  costs const before = costs_so_far();
  for (int i = 0; i < times.measured; ++i) fine = round() && fine;
  costs const spent = costs_so_far() - before;
  EXPECT_TRUE(fine) << what << ": failed";
  EXPECT_EQ(spent, costs{}) << what;
}

template <class Round> void expect_free(char const* what, Round round) { expect_free(what, {}, round); }

/// Connects what `describe` returns, with `ready` called before it starts, or while it waits.
template <class Describe, class Ready>
bool one_connected(unio::io_multiplexer& m, Describe describe, bool waits, Ready ready) {
  if (!waits) ready();
  auto op = unio::connect(describe(), receiver{});
  op.start();
  if (waits) {
    (void)m.try_run();
    ready();
  }
  while (!op.finished()) (void)m.run();
  (void)m.try_run();
  return !op.receiver().failed;
}

} // namespace test
