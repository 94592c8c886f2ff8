// Measuring a table.
#pragma once

#include "runner/report.hpp"

#include <functional>
#include <string>

namespace benchmarks {

struct measuring {
  int rounds = 0;    // 0: as many as the table asks for
  double run_ms = 0; // 0: as long as the table asks for
  bool quick = false;
  std::string only = {}; // subjects whose name contains it, and the reference; empty: all
  std::function<void(std::string const&)> progress = {}; // told a line before each run
};

/// All cases in turns, so that what the machine does in that time meets all of them alike: in each round
/// once, those that are compared one after another, in an order of the round's own. A case that fails is not
/// tried again: its row says why.
report measure_table(table const& t, measuring const& how);

} // namespace benchmarks
