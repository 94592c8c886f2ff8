// src/driver/this_thread.hpp: the calling thread's multiplexer.

#pragma once

#include "sys/fork.hpp"

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1::detail {

/// The calling thread's own: read by every start. Needs no guard for its construction, and stays readable
/// after the rest has been destroyed.
struct thread_shortcut {
  io_multiplexer* own;
  unsigned fork_generation;

  /// Null if it has none, or only what it inherited by fork.
  [[nodiscard]] io_multiplexer* get() const noexcept {
    return fork_generation == sys::fork_generation() ? own : nullptr;
  }
};
extern constinit thread_local thread_shortcut shortcut;

/// Chooses between an operation's own multiplexer and the one it was given, either of which may be null: as
/// io_operation::chosen().
inline io_multiplexer& choose(io_multiplexer* own, io_multiplexer* given) noexcept {
  if (own != nullptr) return *own;
  if (given == nullptr) given = shortcut.get();
  if (given != nullptr) [[likely]]
    return *given;
  return this_thread::multiplexer();
}

/// Whether another thread runs what this one starts on `m`, or may.
inline bool is_run_elsewhere(io_multiplexer const& m) noexcept {
  return &m != shortcut.get() && m.runs_elsewhere();
}

} // namespace unio::detail
