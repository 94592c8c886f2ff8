// Many durations in little memory: buckets whose width is a thirty-second of their size at most.
//
//   histogram   counts; says percentiles, which are never below the true ones and at most 3 % above
#pragma once

#include "support/subject.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace benchmarks {

class histogram {
 public:
  /// No branch that depends on what was measured before, no allocation.
  void add(std::uint64_t ns) noexcept {
    ++counts_[index(ns)];
    ++total_;
    largest_ = ns > largest_ ? ns : largest_;
  }
  void merge(histogram const& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    largest_ = other.largest_ > largest_ ? other.largest_ : largest_;
  }

  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t largest_ns() const noexcept { return largest_; }
  /// 0 ... 100. Zero if nothing was added.
  [[nodiscard]] double percentile_ns(double percent) const noexcept;
  /// "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "p99.99 µs", of a million and more "p99.9999 µs", "max µs".
  [[nodiscard]] std::vector<figure> percentiles() const;
  /// What was counted, in microseconds.
  [[nodiscard]] std::vector<bucket> buckets() const;

 private:
  static constexpr unsigned bits = 5; // linear below 2^bits, then 2^bits buckets to each doubling

  static constexpr std::size_t index(std::uint64_t ns) noexcept {
    if (ns < (1u << bits)) return static_cast<std::size_t>(ns);
    const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - bits;
    return static_cast<std::size_t>((std::uint64_t{shift} << bits) + (ns >> shift));
  }
  static constexpr std::uint64_t upper(std::size_t i) noexcept {
    if (i < (2u << bits)) return i;
    const unsigned shift = static_cast<unsigned>(i >> bits) - 1;
    return ((std::uint64_t{i} - (std::uint64_t{shift} << bits) + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - bits + 1) << bits> counts_ = {};
  std::uint64_t total_ = 0;
  std::uint64_t largest_ = 0;
};

} // namespace benchmarks
