#include "tools/support/json.hpp"

#include <fmt/format.h>

namespace tools {
namespace {

// Of the character at the beginning; 0: it is not valid UTF-8.
std::size_t utf8_length(std::string_view s) noexcept {
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

} // namespace

std::string quoted(std::string_view s) {
  std::string text = "\"";
  while (!s.empty()) {
    std::size_t const n = utf8_length(s);
    auto const c = static_cast<unsigned char>(s[0]);
    if (n == 0) {
      text += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      text.append({'\\', s[0]});
    } else if (c < 0x20) {
      text += fmt::format("\\u{:04x}", c);
    } else {
      text += s.substr(0, n);
    }
    s.remove_prefix(n == 0 ? 1 : n);
  }
  return text + "\"";
}

} // namespace tools
