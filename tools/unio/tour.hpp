// unio tour: moves one real file through every kind of handle, in every style, on every driver, and compares.

#pragma once

#include "rows.hpp"

#include <optional>
#include <string>

namespace tour {

struct options {
  std::string file;           ///< empty: chosen
  std::string json;           ///< empty: none is written
  std::optional<driver> only; ///< none: all there are, or the one that UNIO_DRIVER names
};

/// The capabilities of the driver that unio picks, or that UNIO_DRIVER names. None: `why` is set to one line.
[[nodiscard]] std::optional<unio::capabilities> chosen_driver(std::string& why);

/// Prints the tour. Returns the command's exit status: 0, or 1 if a row failed or a file could not be read or
/// written (with one line on stderr).
[[nodiscard]] int run(options const& o);

} // namespace tour
