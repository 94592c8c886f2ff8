// src/testing/ends.hpp: when a direction of a pipe or a socket has ended.

#pragma once

#include "testing/world.hpp"

namespace unio::inline v0_1::testing {

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
  return d.kind == thing::socket ? was_ended(d, c) && c.breaks_at <= now : c.readers == 0;
}

} // namespace unio::testing
