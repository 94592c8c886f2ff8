#include "tools/support/json.hpp"

#include "report.hpp"

#include <fmt/format.h>

namespace tour {
namespace {

std::string machine_object(machine const& on, source const& from,
                           std::vector<skipped_driver> const& skipped) {
  std::string left_out;
  for (skipped_driver const& d : skipped) {
    left_out += fmt::format("{}{}: {}", left_out.empty() ? "" : ", ", tools::quoted(name(d.which)),
                            tools::quoted(d.why));
  }
  return fmt::format(
      "{{\"unio\": {}, \"kernel\": {}, \"processor\": {}, \"processors\": {}, \"driver\": {}, "
      "\"why\": {}, \"skipped\": {{{}}}, \"file\": {}}}",
      tools::quoted(unio::version_string()), tools::quoted(on.kernel), tools::quoted(on.processor),
      on.processors, tools::quoted(on.chosen.driver), tools::quoted(on.chosen.why), left_out,
      tools::quoted(from.path));
}

std::string row_object(row_result const& row) {
  auto const calls = row.system_calls_per_mb ? fmt::format("{:.3f}", *row.system_calls_per_mb) : "null";
  return fmt::format(
      "{{\"handle\": {}, \"style\": {}, \"driver\": {}, \"bytes\": {}, \"mb_per_s\": {:.3f}, "
      "\"syscalls_per_mb\": {}, \"allocations\": {}, \"ok\": {}}}",
      tools::quoted(name(row.kind.handle)), tools::quoted(name(row.kind.how)),
      tools::quoted(row.kind.on ? name(*row.kind.on) : "-"), row.bytes, row.mb_per_s(), calls,
      row.allocations, row.is_ok());
}

} // namespace

std::string to_json(machine const& on, source const& from, std::vector<row_result> const& rows,
                    std::vector<skipped_driver> const& skipped) {
  std::string text = "{\n  \"machine\": " + machine_object(on, from, skipped) + ",\n  \"rows\": [";
  for (row_result const& row : rows) text += (&row == rows.data() ? "\n    " : ",\n    ") + row_object(row);
  return text + "\n  ]\n}\n";
}

} // namespace tour
