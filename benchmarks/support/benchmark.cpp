// The main program of every benchmark: options, calibration, rounds.

#include "support/benchmark.hpp"

#include "support/program.hpp"
#include "support/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace benchmarks {
namespace {

struct options {
  int rounds = 11;
  double run_ms = 20; // the length of one run, which decides how many operations it has
  std::string json;
  std::string only;
  std::vector<std::string> programs;
  bool serve = false;
  bool help = false;
};

constexpr std::string_view usage = R"(usage: {} [option...]
  --rounds N      runs per case, interleaved (11)
  --quick         3 rounds
  --run-ms MS     length of one run (20)
  --only TEXT     subjects whose name contains TEXT, and the reference
  --with PROGRAM  adds the cases of another benchmark program, say of another compiler; may be repeated
  --json FILE     writes the result there too
  --serve         runs cases for another program, which asks on standard input
)";

options parse(int argc, char** argv) {
  options o;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    auto value = [&] {
      if (++i == arguments.size()) throw std::invalid_argument(name + " needs a value");
      return arguments[i];
    };
    if (name == "--rounds") {
      o.rounds = std::stoi(value());
    } else if (name == "--quick") {
      o.rounds = 3;
    } else if (name == "--run-ms") {
      o.run_ms = std::stod(value());
    } else if (name == "--only") {
      o.only = value();
    } else if (name == "--with") {
      o.programs.push_back(value());
    } else if (name == "--json") {
      o.json = value();
    } else if (name == "--serve") {
      o.serve = true;
    } else if (name == "--help") {
      o.help = true;
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (o.rounds < 1 || !(o.run_ms > 0)) throw std::invalid_argument("--rounds and --run-ms must be positive");
  return o;
}

// How many operations last run_ms. The last of these runs is long enough to have warmed caches up.
std::uint64_t calibrate(benchmark_case const& c, double run_ms) {
  const double wanted_ns = run_ms * 1e6;
  std::uint64_t n = 1;
  for (;;) {
    const double ns = std::max(c.run(n).ns, 1.0);
    if (ns >= wanted_ns / 4)
      return static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) * wanted_ns / ns));
    n *= ns < wanted_ns / 100 ? 10 : 2;
  }
}

std::vector<row> measure_all(std::vector<benchmark_case> const& cases, options const& o) {
  std::vector<row> rows;
  std::vector<std::uint64_t> operations;
  for (benchmark_case const& c : cases) {
    row r{.subject = c.subject, .parameters = c.parameters, .unavailable = c.unavailable};
    std::uint64_t n = 0;
    if (c.run) {
      n = calibrate(c, o.run_ms);
      count_allocations(true);
      r.allocations = static_cast<double>(c.run(n).allocations) / static_cast<double>(n);
      count_allocations(false);
    }
    rows.push_back(std::move(r));
    operations.push_back(n);
  }
  for (int round = 0; round < o.rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (!cases[i].run) continue;
      rows[i].runs.push_back(cases[i].run(operations[i]).ns / static_cast<double>(operations[i]));
    }
  }
  return rows;
}

} // namespace

int run(int argc, char** argv, description benchmark) try {
  const options o = parse(argc, argv);
  if (o.help) {
    fmt::print(fmt::runtime(usage), argv[0]);
    return 0;
  }
  if (o.serve) return serve(benchmark.cases);
#ifndef NDEBUG
  fmt::print(stderr, "{}: built without NDEBUG: these figures mean little\n", benchmark.name);
#endif

  std::vector<benchmark_case> cases = std::move(benchmark.cases);
  for (std::string const& program : o.programs) {
    std::vector<benchmark_case> more = cases_of(program);
    std::ranges::move(more, std::back_inserter(cases));
  }
  std::erase_if(cases, [&](benchmark_case const& c) {
    return c.subject != benchmark.reference && c.subject.find(o.only) == std::string::npos;
  });

  const report result{.benchmark = benchmark.name,
                      .operation = benchmark.operation,
                      .reference = benchmark.reference,
                      .rows = measure_all(cases, o)};
  print_table(result);
  if (!o.json.empty()) write_json(result, o.json);
  return 0;
} catch (std::exception const& e) {
  fmt::print(stderr, "{}: {}\n", benchmark.name, e.what());
  return 2;
}

} // namespace benchmarks
