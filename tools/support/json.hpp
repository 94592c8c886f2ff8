// A string of JSON (RFC 8259 §7).

#pragma once

#include <string>
#include <string_view>

namespace tools {

/// In quotation marks, escaped. JSON cannot hold bytes that are not UTF-8, but a path may: each is shown as
/// U+FFFD.
[[nodiscard]] std::string quoted(std::string_view text);

} // namespace tools
