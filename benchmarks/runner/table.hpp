// A published table: its cases, and how it reads.
//
//   budget         what is wanted of a row
//   settings       what the command line asks for and every table must know
//   table          the cases, the unit, the peer that the ratios refer to
//   program_cases  the cases of a program of this directory
//   tables         all of them: name, what it shows, and the function in its folder that makes it
#pragma once

#include "support/subject.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace benchmarks {

struct budget {
  double ratio;            // this at least
  bool is_to_best = false; // to the best peer; else to the reference
};

struct settings {
  bool quick = false;                  // few cases and short runs: to see that it works
  std::string programs = {};           // the directory of the subjects' programs
  std::string unio = {};               // the command `unio`
  std::vector<std::string> other = {}; // --with: programs of another compiler's build
  int subject_cpu = -1;                // --pin; -1: the system decides
  int helper_cpu = -1;
};

struct table {
  std::string name;
  std::string title; // one line: what is measured
  std::string unit;  // of the values: "ns per byte"
  bool higher_is_better = false;
  std::string reference;         // the first peer: every subject's ratio refers to it
  std::vector<counting> counted; // what is counted in runs of their own (of the cases of programs)
  std::vector<std::string> curves_over = {}; // the parameters along which charts have curves; none: bars
  bool has_percentiles = false;              // the extras are percentiles: a chart of them, too
  double run_ms = 20;                        // how long a run is to last
  int rounds = 11;
  std::vector<std::string> notes = {}; // printed below
  /// What is wanted of the row of a subject with these parameters. Empty: of none.
  std::function<std::optional<budget>(std::string const&, std::vector<parameter> const&)> wanted = {};
  std::vector<benchmark_case> cases = {};
};

/// A subject is ours if its name begins with "unio"; all others are peers.
bool is_ours(std::string const& subject);

/// The cases of the program `name`, which is started and lives as long as one of them. If it is not there or
/// cannot be understood: one case that is not available, and why.
std::vector<benchmark_case> program_cases(settings const& s, std::string const& name);

/// As often as needed: more += program_cases(...).
std::vector<benchmark_case>& operator+=(std::vector<benchmark_case>& to, std::vector<benchmark_case> more);

struct table_entry {
  std::string name;
  std::string shows; // for `unio bench list`
  table (*make)(settings const&);
};

std::span<table_entry const> tables();

} // namespace benchmarks
