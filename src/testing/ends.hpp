// src/testing/ends.hpp: when a direction of a pipe or a socket has ended.

#pragma once

#include "testing/world.hpp"

namespace unio::inline v0_1::testing {

/// By shutdown(2), and not by a close.
constexpr bool was_shut(channel const& c) noexcept { return c.writers < 0; }

/// A socket's direction has ended once one end has closed or shut it; both count for it from the start.
inline bool was_ended(description const& d, channel const& c) noexcept {
  return d.kind == thing::socket ? c.writers < 2 || c.readers < 2 : c.writers == 0;
}
/// For the reader.
inline bool ended(description const& d, channel const& c, std::int64_t now) noexcept {
  return d.reads_no_more || (was_ended(d, c) && c.under_way == 0 && c.ends_at <= now);
}
/// For the writer.
inline bool broken(description const& d, channel const& c, std::int64_t now) noexcept {
  if (d.kind != thing::socket) return c.readers == 0;
  return was_ended(d, c) && (was_shut(c) || c.breaks_at <= now);
}
/// A connection over the network that is no more: it was reset, or both ends have ended it.
inline bool is_over(description const& d, std::int64_t now) noexcept {
  if (d.line == nullptr) return false;
  bool const is_told = d.in->ends_at <= now;
  bool const heard = d.in->writers < 2 && d.in->under_way == 0 && is_told; // not by its own shutdown(2)
  bool const was_reset = d.in->was_reset && (heard || (d.in->readers < 2 && is_told));
  return was_reset || (heard && was_shut(*d.out)) || (!was_shut(*d.out) && broken(d, *d.out, now));
}

} // namespace unio::testing
