// src/sys/due.hpp: a deadline as a moment, by the clocks of the table of system calls.

#pragma once

#include "sys/calls.hpp"

#include <unio/deadline.hpp>

namespace unio::inline v0_1::sys {

/// Steady clock, ns; deadline::forever if there is none.
inline std::int64_t due(deadline const& d) noexcept {
  if (d.is_none()) return deadline::forever;
  return d.due(steady_now(), d.which() == deadline::kind::system ? system_now() : 0);
}

} // namespace unio::sys
