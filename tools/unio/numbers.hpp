// Numbers as values of options.

#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

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

struct measure {
  double number;
  std::string_view unit; ///< what follows the number
};

/// "1.5", "500ms". None for what strtod(3) would take as well: signs, spaces, hexadecimal digits, "inf".
inline std::optional<measure> measure_of(std::string const& text) {
  bool const begins = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
  if (!begins || text.find_first_of("xX") != text.npos) return {};
  char* unit = nullptr; // not from_chars, which libc++ 19 does not have for double
  double const number = std::strtod(text.c_str(), &unit);
  if (unit == text.c_str()) return {};
  return measure{number, {unit, text.c_str() + text.size()}};
}
