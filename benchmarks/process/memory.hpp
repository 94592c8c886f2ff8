// Memory of a process that launches others: what a fork has to copy the tables of.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace benchmarks {

inline constexpr const char* memory_sizes[] = {"0", "256"};

/// Memory of so many MiB, every page of it touched.
inline std::vector<char> touched(std::string const& mebibytes) {
  return std::vector<char>(static_cast<std::size_t>(std::atoi(mebibytes.c_str())) << 20, 'x');
}

} // namespace benchmarks
