#include "net/names.hpp"

#include <algorithm>

namespace unio::inline v0_1::net {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string without_dot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return std::string(name);
}

bool equal(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

bool ends_with(std::string_view text, std::string_view lower_case_end) noexcept {
  return text.size() >= lower_case_end.size() &&
         equal(text.substr(text.size() - lower_case_end.size()), lower_case_end);
}

char const* what_is_wrong_with(std::string_view name) noexcept {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) return "the name is empty";
  if (name.size() > 253) return "the name is longer than 253 characters";
  std::size_t label = 0;
  for (char const c : name) {
    if (c == '.') {
      if (label == 0) return "a part of the name is empty";
      label = 0;
      continue;
    }
    bool const fits = (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!fits) return "the name contains a character other than letters, digits, '-', '_' and '.'";
    if (++label > 63) return "a part of the name is longer than 63 characters";
  }
  return label == 0 ? "a part of the name is empty" : nullptr;
}

bool is_localhost(std::string_view name) noexcept {
  if (name.ends_with('.')) name.remove_suffix(1);
  return equal(name, "localhost") || ends_with(name, ".localhost");
}

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 100;
  std::string out = "'";
  for (char const c : text.substr(0, most)) {
    auto const byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f ? c : '?';
  }
  return out + (text.size() > most ? "…'" : "'");
}

} // namespace unio::net
