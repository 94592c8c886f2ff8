// src/core/host_name.hpp: which texts can be the name of a host.

#pragma once

#include <cstddef>
#include <string_view>

namespace unio::inline v0_1::detail {

/// Whether the text can be a name in a query and in a certificate: labels of 1 to 63 letters, digits, '-' and
/// '_', together at most 253 bytes, perhaps a final dot (RFC 1035 §2.3.4; RFC 2181 §11 for the underscores).
/// Null: it can; otherwise what is wrong.
constexpr char const* what_is_wrong_with(std::string_view name) noexcept {
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
    bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool const fits = is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!fits) return "the name contains a character other than letters, digits, '-', '_' and '.'";
    if (++label > 63) return "a part of the name is longer than 63 characters";
  }
  return label == 0 ? "a part of the name is empty" : nullptr;
}

} // namespace unio::detail
