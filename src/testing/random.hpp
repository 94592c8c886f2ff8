// src/testing/random.hpp: the one source of chance in a simulation. The standard library's distributions
// differ between implementations; a seed has to mean the same everywhere.

#pragma once

#include <cstdint>

namespace unio::inline v0_1::testing {

/// Draws in place of all sources: 0 … bound - 1. `ordinary` is what does nothing unusual. Null: the sources
/// themselves.
using drawer = std::uint64_t (*)(std::uint64_t bound, std::uint64_t ordinary) noexcept;
extern constinit drawer on_draw;
/// Gets, in words, what a draw has led to. Null: not wanted.
using teller = void (*)(char const* what) noexcept;
extern constinit teller on_story;

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
  std::uint64_t below(std::uint64_t bound) noexcept { return draw(bound, 0); }
  bool one_in(std::uint64_t n) noexcept { return draw(n, 1) == 0; }

 private:
  std::uint64_t draw(std::uint64_t bound, std::uint64_t ordinary) noexcept {
    if (bound == 0) return 0;
    return on_draw == nullptr ? next() % bound : on_draw(bound, ordinary);
  }

  std::uint64_t state_;
};

} // namespace unio::testing
