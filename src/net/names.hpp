// src/net/names.hpp: names of hosts as text.

#pragma once

#include <string>
#include <string_view>

namespace unio::inline v0_1::net {

/// ASCII only, whatever the locale.
constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string lower(std::string_view text);
/// Without a final dot.
std::string without_dot(std::string_view name);
bool equal(std::string_view a, std::string_view b) noexcept;
bool ends_with(std::string_view text, std::string_view lower_case_end) noexcept;

/// Whether the text can be a name in a query: labels of 1 to 63 letters, digits, '-' and '_', together at
/// most 253 bytes, perhaps a final dot (RFC 1035 §2.3.4; RFC 2181 §11 for the underscores). Null: it can;
/// otherwise what is wrong.
char const* what_is_wrong_with(std::string_view name) noexcept;

/// Whether it is localhost or below it (RFC 6761 §6.3).
bool is_localhost(std::string_view name) noexcept;

/// For messages: printable, and not longer than a line.
std::string quoted(std::string_view text);

} // namespace unio::net
