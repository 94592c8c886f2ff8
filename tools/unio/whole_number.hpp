// Whole numbers as values of options.

#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>

/// For CLI::Option::check. Decimal digits only: CLI11 by itself takes "" for 0, "0x10" and "020" for 16, and
/// cuts off what is too large.
inline auto whole_number(std::int64_t lowest, std::int64_t highest) {
  return [lowest, highest](std::string const& text) {
    std::int64_t n = -1;
    (void)std::from_chars(text.data(), text.data() + text.size(), n);
    bool const is_right = text == std::to_string(n) && lowest <= n && n <= highest;
    return is_right ? std::string()
                    : fmt::format("\"{}\" is not a whole number from {} to {}", text, lowest, highest);
  };
}
