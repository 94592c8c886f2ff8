// How the tour is presented: a table for people, JSON for programs.

#pragma once

#include "rows.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tour {

/// What the tour runs on.
struct machine {
  std::string kernel; ///< as uname(2): system, release, architecture
  std::string processor;
  unsigned processors = 0;
  unio::capabilities chosen; ///< of the driver that unio picks by itself
};

/// A driver that this tour leaves out, and why.
struct skipped_driver {
  driver which;
  std::string why;
};

[[nodiscard]] machine this_machine(unio::capabilities chosen);

/// The lines before the table.
[[nodiscard]] std::string heading(machine const& on, source const& from);

class table {
 public:
  explicit table(bool in_colour) : in_colour_(in_colour) {}
  [[nodiscard]] std::string head() const;
  [[nodiscard]] std::string line(row_result const& row) const;
  /// A row that was not run.
  [[nodiscard]] std::string skipped(row_kind const& k, std::string_view why) const;

 private:
  [[nodiscard]] std::string paint(std::string_view text, char const* colour) const;
  bool in_colour_;
};

[[nodiscard]] std::string to_json(machine const& on, source const& from, std::vector<row_result> const& rows,
                                  std::vector<skipped_driver> const& skipped);

} // namespace tour
