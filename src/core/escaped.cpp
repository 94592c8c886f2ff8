#include "core/escaped.hpp"

#include "core/utf8.hpp"

#include <iterator>

namespace unio::inline v0_1::detail {
namespace {

// Of one valid character.
char32_t code_point(std::string_view character) noexcept {
  constexpr unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = static_cast<unsigned char>(character[0]) & first_bits[character.size()];
  for (char const more : character.substr(1)) c = c << 6 | (static_cast<unsigned char>(more) & 0x3F);
  return c;
}

bool is_harmless(char32_t c) noexcept {
  bool const control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
  // Unicode's Bidi_Control: text after these may be shown in another order.
  bool const direction = c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                         (c >= 0x2066 && c <= 0x2069);
  return !control && !direction && c != '\\';
}

} // namespace

std::string escaped(std::string_view text, char quote) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t const n = utf8_size(text);
    std::string_view const next = text.substr(0, n == 0 ? 1 : n);
    if (n != 0 && is_harmless(code_point(next)) && (quote == '\0' || next[0] != quote)) {
      out += next;
    } else {
      for (char const c : next) {
        auto const byte = static_cast<unsigned char>(c);
        out.append({'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
      }
    }
    text.remove_prefix(next.size());
  }
  return out;
}

// Not by std::to_chars(), which would be a kilobyte of each program.
void append_number(std::string& text, std::uint64_t n, unsigned base) {
  char digits[20];
  char* first = std::end(digits);
  do *--first = "0123456789abcdef"[n % base];
  while ((n /= base) != 0);
  text.append(first, std::end(digits));
}

std::string in_quotes(std::string_view text, char quote, std::size_t most) {
  std::string out(1, quote);
  out += escaped(text.substr(0, most), quote);
  if (text.size() > most) out += "…";
  out += quote;
  return out;
}

} // namespace unio::detail
