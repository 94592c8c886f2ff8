// What was measured, as a table and as JSON.
#pragma once

#include "support/benchmark.hpp"

#include <optional>
#include <string>
#include <vector>

namespace benchmarks {

struct row {
  std::string subject;
  std::vector<parameter> parameters;
  std::vector<double> runs = {}; // nanoseconds per operation, one per round; empty: not available
  double allocations = 0;        // per operation
  std::string unavailable = {};  // the reason
};

struct report {
  std::string benchmark;
  std::string operation;
  std::string reference;
  std::vector<row> rows;
};

double median(std::vector<double> values);
double lowest(std::vector<double> const& values);
double highest(std::vector<double> const& values);

/// How far the runs lie apart, as a part of their median.
double spread(std::vector<double> const& values);

/// How many times as fast as the reference under the same parameters; nothing if one of them was not
/// measured.
std::optional<double> ratio(report const& r, row const& of);

void print_table(report const& r);
void write_json(report const& r, std::string const& file);

} // namespace benchmarks
