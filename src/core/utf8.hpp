// src/core/utf8.hpp: characters of UTF-8 (RFC 3629).

#pragma once

#include <cstddef>
#include <string_view>

namespace unio::inline v0_1::detail {

/// The size of the character that `s`, which is not empty, begins with; 0: it is not valid UTF-8.
constexpr std::size_t utf8_size(std::string_view s) noexcept {
  auto const byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  auto const follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  unsigned const b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b < 0xE0) return follows(1) ? 2 : 0;
  if ((b & 0xF0) == 0xE0) {
    bool const overlong = b == 0xE0 && byte(1) < 0xA0;
    bool const surrogate = b == 0xED && byte(1) >= 0xA0;
    return !overlong && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  if (b >= 0xF0 && b < 0xF5) {
    bool const outside = (b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) >= 0x90);
    return !outside && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

} // namespace unio::detail
