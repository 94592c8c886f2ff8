// The machine on which figures were measured, from uname(2) and /proc.

#pragma once

#include <string>

namespace tools {

/// System, release and architecture.
[[nodiscard]] std::string kernel_name();
/// Says so if the architecture does not report it.
[[nodiscard]] std::string processor_name();

} // namespace tools
