#include "report.hpp"

#include <fmt/format.h>

namespace tour {
namespace {

// Bytes that are not UTF-8 cannot stand in JSON; a path may hold them. They are shown as U+FFFD.
std::size_t utf8_length(std::string_view s) noexcept {
  auto const byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  auto const follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  unsigned const b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b < 0xE0) return follows(1) ? 2 : 0;
  if ((b & 0xF0) == 0xE0) {
    bool const overlong = b == 0xE0 && byte(1) < 0xA0;
    bool const surrogate = b == 0xED && byte(1) >= 0xA0;
    return !overlong && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  if (b >= 0xF0 && b < 0xF5) {
    bool const outside = (b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) >= 0x90);
    return !outside && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string quoted(std::string_view s) {
  std::string text = "\"";
  while (!s.empty()) {
    std::size_t const n = utf8_length(s);
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

std::string machine_object(machine const& on, source const& from,
                           std::vector<skipped_driver> const& skipped) {
  std::string left_out;
  for (skipped_driver const& d : skipped) {
    left_out += fmt::format("{}{}: {}", left_out.empty() ? "" : ", ", quoted(name(d.which)), quoted(d.why));
  }
  return fmt::format(
      "{{\"unio\": {}, \"kernel\": {}, \"processor\": {}, \"processors\": {}, \"driver\": {}, "
      "\"why\": {}, \"skipped\": {{{}}}, \"file\": {}}}",
      quoted(unio::version_string()), quoted(on.kernel), quoted(on.processor), on.processors,
      quoted(on.chosen.driver), quoted(on.chosen.why), left_out, quoted(from.path));
}

std::string row_object(row_result const& row) {
  auto const calls = row.system_calls_per_mb ? fmt::format("{:.3f}", *row.system_calls_per_mb) : "null";
  return fmt::format(
      "{{\"handle\": {}, \"style\": {}, \"driver\": {}, \"bytes\": {}, \"mb_per_s\": {:.3f}, "
      "\"syscalls_per_mb\": {}, \"allocations\": {}, \"ok\": {}}}",
      quoted(name(row.kind.handle)), quoted(name(row.kind.how)),
      quoted(row.kind.on ? name(*row.kind.on) : "-"), row.bytes, row.mb_per_s(), calls, row.allocations,
      row.is_ok());
}

} // namespace

std::string to_json(machine const& on, source const& from, std::vector<row_result> const& rows,
                    std::vector<skipped_driver> const& skipped) {
  std::string text = "{\n  \"machine\": " + machine_object(on, from, skipped) + ",\n  \"rows\": [";
  for (row_result const& row : rows) text += (&row == rows.data() ? "\n    " : ",\n    ") + row_object(row);
  return text + "\n  ]\n}\n";
}

} // namespace tour
