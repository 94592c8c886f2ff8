// src/net/names.hpp: names of hosts as text.

#pragma once

#include "core/escaped.hpp"
#include "core/host_name.hpp"

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

using detail::what_is_wrong_with;

/// Whether it is localhost or below it (RFC 6761 §6.3).
bool is_localhost(std::string_view name) noexcept;

/// For messages.
inline std::string quoted(std::string_view text) { return detail::in_quotes(text); }

} // namespace unio::net
