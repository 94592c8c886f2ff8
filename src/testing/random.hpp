// src/testing/random.hpp: the one source of chance in a simulation. The standard library's distributions
// differ between implementations; a seed has to mean the same everywhere.

#pragma once

#include <cstdint>

namespace unio::inline v0_1::testing {

/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// 0 … bound - 1; 0 for a bound of 0.
  std::uint64_t below(std::uint64_t bound) noexcept { return bound == 0 ? 0 : next() % bound; }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

} // namespace unio::testing
