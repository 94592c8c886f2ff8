// The library's environment variables.

#pragma once

#include <string>

/// What is wrong with UNIO_DRIVER, unless --driver stands in for it, or with UNIO_RING_ENTRIES: the variable,
/// its value and why; empty if nothing is. An empty variable counts as none.
[[nodiscard]] std::string wrong_variable(bool has_driver_option);
