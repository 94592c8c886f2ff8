// The file that the tour moves.

#pragma once

#include "rows.hpp"

#include <string>

namespace tour {

/// The largest readable regular file of up to 64 MiB, so that the tour stays short, among the project's own
/// sources (if this is run where they are) and the system's libraries.
[[nodiscard]] std::string choose_file();

/// A file that is open, mapped and checksummed.
struct open_source {
  unio::mapped_file_handle map;
  source what;
};

/// Errors  `why` gets one line that names the file and the reason
[[nodiscard]] std::optional<open_source> open_file(std::string const& path, std::string& why);

} // namespace tour
