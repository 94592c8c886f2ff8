// What was measured, as a table, as JSON, as a page.
#pragma once

#include "runner/table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace benchmarks {

/// One figure beside the value, over all rounds.
struct extra_column {
  std::string name;
  std::vector<double> runs;
};

struct row {
  std::string subject;
  std::vector<parameter> parameters;
  std::vector<double> runs = {}; // one per round; empty: not available
  std::vector<extra_column> extra = {};
  std::vector<bucket> histogram = {}; // of all rounds together
  std::string unavailable = {};       // the reason
};

struct report {
  table const* of = nullptr; // its cases are not used
  std::vector<row> rows;
  std::string command = {}; // what measures the same again: "bench echo --rounds 3"
};

double median(std::vector<double> values);
double lowest(std::vector<double> const& values);
double highest(std::vector<double> const& values);

/// How far the runs lie apart, as a part of their median.
double spread(std::vector<double> const& values);
inline constexpr double spread_worth_a_flag = 0.10;

/// How many times as good as the other: above 1 `of` is better. Nothing if one of them was not measured.
std::optional<double> ratio(report const& r, row const& of, row const& to);

/// The row of the table's reference, of the best peer, with the same parameters (but those that say how a
/// subject was built: a peer without a "compiler" is everybody's). Null: there is none.
row const* reference_of(report const& r, row const& of);
row const* best_peer_of(report const& r, row const& of);

/// What is wanted of a row, and what it has. None: nothing is, or it cannot be said.
struct verdict {
  budget wanted;
  row const* peer;
  double ratio;
  [[nodiscard]] bool is_missed() const { return ratio < wanted.ratio; }
};
std::optional<verdict> verdict_on(report const& r, row const& line);

/// Rows with the same parameters together, groups in the order in which they were given, the best of each
/// first and what is not available last.
std::vector<std::vector<row const*>> grouped(report const& r);

/// Three significant digits, without an exponent.
std::string short_number(double value);

void print_table(report const& r);
/// One object; an array of them if `several`.
void write_json(std::vector<report> const& reports, bool several, std::string const& file);
/// Throws if it cannot be written: std::system_error that names the file.
void write_file(std::string const& file, std::string const& text);
/// One page without references to anywhere else. In html.cpp.
void write_html(std::vector<report> const& reports, std::string const& file);

} // namespace benchmarks
