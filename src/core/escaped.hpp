// src/core/escaped.hpp: text from outside, as messages show it.
//
// Peers, files and users choose names. A line end in one would forge a line of a log, an escape sequence
// would command the terminal. Each message shows such text through one of these.

#pragma once

#include <unio/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace unio::inline v0_1::detail {

/// `text` with each byte that could mislead a reader as \xNN: control characters (C0, DEL, C1), backslashes,
/// bytes that are not valid UTF-8, Unicode's separators of lines and its marks of direction; also `quote`,
/// if the text stands in such. Other characters of UTF-8 stay.
[[gnu::cold]] UNIO_API std::string escaped(std::string_view text, char quote = '\0');

/// The same in quotes, with "…" in place of what follows the first `most` bytes.
[[gnu::cold]] UNIO_API std::string in_quotes(std::string_view text, char quote = '\'',
                                             std::size_t most = 255);

/// Adds a number, of at most 20 digits. Texts of failures are made of this and of +=.
[[gnu::cold]] void append_number(std::string& text, std::uint64_t n, unsigned base = 10);

} // namespace unio::detail
