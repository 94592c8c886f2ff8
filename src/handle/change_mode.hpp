// src/handle/change_mode.hpp: chmod(2) of a name that may be another's by now.

#pragma once

#include <unio/config.hpp>

namespace unio::inline v0_1::detail {

/// Sets the mode of what has the name, without following a link there. Returns 0 or a negative code:
/// EOPNOTSUPP for a link.
UNIO_API int change_mode(int directory, char const* name, unsigned mode) noexcept;

} // namespace unio::detail
