// A string of JSON (RFC 8259 §7).

#pragma once

#include <string>
#include <string_view>

namespace tools {

/// In quotation marks, escaped. Bytes that are not UTF-8 cannot stand in JSON; a path may hold them: each is
/// shown as U+FFFD.
[[nodiscard]] std::string quoted(std::string_view text);

} // namespace tools
