// Percentiles.

#include "support/histogram.hpp"

#include <cmath>

namespace benchmarks {

double histogram::percentile_ns(double percent) const noexcept {
  if (total_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(total_) * percent / 100));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] != 0 && seen >= wanted)
      return static_cast<double>(upper(i) < largest_ ? upper(i) : largest_);
  }
  return static_cast<double>(largest_);
}

std::vector<figure> histogram::percentiles() const {
  std::vector<figure> all = {
      {"p50 µs", percentile_ns(50) / 1e3},       {"p90 µs", percentile_ns(90) / 1e3},
      {"p99 µs", percentile_ns(99) / 1e3},       {"p99.9 µs", percentile_ns(99.9) / 1e3},
      {"p99.99 µs", percentile_ns(99.99) / 1e3},
  };
  if (total_ >= 1'000'000) all.push_back({"p99.9999 µs", percentile_ns(99.9999) / 1e3});
  all.push_back({"max µs", static_cast<double>(largest_) / 1e3});
  return all;
}

std::vector<bucket> histogram::buckets() const {
  std::vector<bucket> out;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] != 0) out.push_back({static_cast<double>(upper(i)) / 1e3, counts_[i]});
  return out;
}

} // namespace benchmarks
