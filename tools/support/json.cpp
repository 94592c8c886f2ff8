#include "tools/support/json.hpp"

#include "src/core/utf8.hpp"

#include <fmt/format.h>

namespace tools {

std::string quoted(std::string_view s) {
  std::string text = "\"";
  while (!s.empty()) {
    std::size_t const n = unio::detail::utf8_size(s);
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
