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

bool is_localhost(std::string_view name) noexcept {
  if (name.ends_with('.')) name.remove_suffix(1);
  return equal(name, "localhost") || ends_with(name, ".localhost");
}

} // namespace unio::net
