// src/core/origin.hpp: where a failure comes from, in 32 bits.
//
//   number of the operation's name (8) | 1 | number of its object (23)
//                                      | 0 | descriptor + 1 (23); 0 without one

#pragma once

#include <unio/error.hpp>

namespace unio::inline v0_1::detail {

inline constexpr unsigned name_shift = 24;
inline constexpr std::uint32_t is_object = 1U << 23;
inline constexpr std::uint32_t number_mask = is_object - 1;

/// The number of the name "read", which is not looked for: a read that would block is no rarity.
inline constexpr std::uint32_t read_number = 1;

constexpr std::uint32_t of_descriptor(int fd) noexcept {
  auto const n = static_cast<std::uint32_t>(fd) + 1;
  return fd >= 0 && n <= number_mask ? n : 0;
}

/// The origin of a failed operation whose name has a known number, on a descriptor or none.
constexpr origin origin_on(std::uint32_t name, int fd) noexcept {
  return static_cast<origin>(name << name_shift | of_descriptor(fd));
}

} // namespace unio::detail
