// Calibration, counting, rounds.

#include "runner/rounds.hpp"

#include "runner/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

namespace benchmarks {
namespace {

constexpr int quick_rounds = 3;
constexpr double quick_run_ms = 10;
constexpr std::uint64_t most_traced_operations = 4000; // each system call of theirs stops twice

// How many operations last run_ms. The last of these runs is long enough to have warmed caches up.
std::uint64_t calibrate(benchmark_case const& c, double run_ms) {
  const double wanted_ns = run_ms * 1e6;
  std::uint64_t n = 1;
  for (;;) {
    const double ns = std::max(c.run(n).elapsed_ns, 1.0);
    if (ns >= wanted_ns / 4)
      return std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) * wanted_ns / ns)));
    if (n > (std::uint64_t{1} << 50)) throw std::runtime_error("takes no time at all");
    n *= ns < wanted_ns / 100 ? 10 : 2;
  }
}

void add(row& to, std::vector<figure> const& extra) {
  for (figure const& f : extra) {
    auto column = std::ranges::find(to.extra, f.name, &extra_column::name);
    if (column == to.extra.end()) column = to.extra.insert(to.extra.end(), {f.name, {}});
    column->runs.push_back(f.value);
  }
}

// Of a program's case only: what runs here counts nothing.
void count(benchmark_case const& c, std::vector<counting> const& counted, std::uint64_t operations, row& to) {
  for (const counting what : counted) {
    const bool traced = what == counting::system_calls;
    count_in_programs(what);
    const sample s = c.run(traced ? std::min(operations, most_traced_operations) : operations);
    count_in_programs(counting::nothing);
    for (figure const& f : s.extra)
      if (f.name == "allocations" || f.name == "system calls") add(to, {f});
  }
}

class table_run {
 public:
  table_run(table const& t, measuring const& how)
      : table_(t),
        how_(how),
        rounds_(how.rounds != 0 ? how.rounds
                : how.quick     ? std::min(quick_rounds, t.rounds)
                                : t.rounds),
        run_ms_(how.run_ms != 0 ? how.run_ms
                : how.quick     ? std::min(quick_run_ms, t.run_ms)
                                : t.run_ms) {}

  report all() {
    for (benchmark_case const& c : table_.cases) {
      if (c.subject != table_.reference && c.subject.find(how_.only) == std::string::npos) continue;
      cases_.push_back(&c);
      rows_.push_back({.subject = c.subject, .parameters = c.parameters, .unavailable = c.unavailable});
      if (!c.run && c.unavailable.empty()) rows_.back().unavailable = "no reason given";
    }
    operations_.resize(cases_.size());
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      attempt(i, "warming up", [&] {
        benchmark_case const& c = *cases_[i];
        operations_[i] = c.operations != 0 ? c.operations : calibrate(c, run_ms_);
        count(c, table_.counted, operations_[i], rows_[i]);
      });
    }
    for (int round = 1; round <= rounds_; ++round)
      for (std::size_t const i : order_of(round))
        attempt(i, fmt::format("round {} of {}", round, rounds_), [&] { once(i); });
    return {.of = &table_, .rows = std::move(rows_), .command = command()};
  }

 private:
  [[nodiscard]] std::string command() const {
    std::string out = "bench " + table_.name;
    if (how_.quick) out += " --quick";
    if (how_.rounds != 0) out += fmt::format(" --rounds {}", how_.rounds);
    if (how_.run_ms != 0) out += fmt::format(" --run-ms {}", how_.run_ms);
    if (!how_.only.empty()) out += fmt::format(" --only '{}'", how_.only);
    return out;
  }

  template <class F> void attempt(std::size_t i, std::string const& what, F&& f) {
    if (!rows_[i].unavailable.empty()) return;
    if (how_.progress) {
      std::string line = fmt::format("{}: {}, {}", table_.name, what, rows_[i].subject);
      for (parameter const& p : rows_[i].parameters) line += fmt::format(" {}={}", p.name, p.value);
      how_.progress(line);
    }
    try {
      f();
    } catch (std::exception const& e) {
      count_in_programs(counting::nothing);
      rows_[i].runs.clear();
      rows_[i].extra.clear();
      rows_[i].unavailable = e.what();
    }
  }

  // Neighbours with the same parameters are compared: each round has them in an order of its own. Otherwise
  // what comes and goes as fast as the rounds would meet the same ones again and again.
  [[nodiscard]] std::vector<std::size_t> order_of(int round) const {
    std::vector<std::size_t> order(cases_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(static_cast<unsigned>(round));
    for (auto first = order.begin(); first != order.end();) {
      auto const last = std::find_if(first, order.end(), [&](std::size_t i) {
        return cases_[i]->parameters != cases_[*first]->parameters;
      });
      std::shuffle(first, last, random);
      first = last;
    }
    return order;
  }

  void once(std::size_t i) {
    const sample s = cases_[i]->run(operations_[i]);
    rows_[i].runs.push_back(s.value);
    add(rows_[i], s.extra);
    std::map<double, std::uint64_t> merged;
    for (bucket const& b : rows_[i].histogram) merged[b.upper] += b.count;
    for (bucket const& b : s.histogram) merged[b.upper] += b.count;
    rows_[i].histogram.clear();
    for (auto const& [upper, n] : merged) rows_[i].histogram.push_back({upper, n});
  }

  table const& table_;
  measuring const& how_;
  int rounds_;
  double run_ms_;
  std::vector<benchmark_case const*> cases_;
  std::vector<row> rows_;
  std::vector<std::uint64_t> operations_;
};

} // namespace

report measure_table(table const& t, measuring const& how) { return table_run(t, how).all(); }

} // namespace benchmarks
