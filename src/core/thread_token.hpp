// src/core/thread_token.hpp: which thread this is.

#pragma once

namespace unio::inline v0_1 {

/// A name for the calling thread that is cheaper than its id. A later thread may get it once this one has
/// ended.
inline void const* this_thread_token() noexcept {
  static thread_local char token;
  return &token;
}

} // namespace unio
