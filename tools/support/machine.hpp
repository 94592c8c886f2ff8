// The machine, for whoever reads figures: as uname(2) and /proc tell it.

#pragma once

#include <string>

namespace tools {

/// System, release and architecture.
[[nodiscard]] std::string kernel_name();
/// Not every architecture tells: then it says so.
[[nodiscard]] std::string processor_name();

} // namespace tools
