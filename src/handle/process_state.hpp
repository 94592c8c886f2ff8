// src/handle/process_state.hpp: what is known of the end of a process, and who removes a child that no caller
// waits for.
//
// The status belongs to the process, not to a wait: the first that asks the kernel gets it, for all.

#pragma once

#include "sys/short_lock.hpp"

#include <unio/process_handle.hpp>

namespace unio::inline v0_1::detail {

/// A process, as its handle and the waits for it share it.
struct process_state {
  int id = 0;
  bool is_ours = false;    ///< launched here, so removed here
  unsigned generation = 0; ///< of forks: in a forked child it is not a child any more

  // A thread that asks the kernel holds the lock: the first one gets the status, and removes the process.
  sys::short_lock lock;
  bool has_ended = false; ///< and `status` says how
  exit_status status;
  bool knows_used = false; ///< and `used` says what
  process_resources used;

  // Of the thread that removes children without a waiter.
  int fd = -1;
  bool is_watched = false;
  process_state* next = nullptr;
  process_state* previous = nullptr;
};

/// Looks whether the process of the descriptor `fd` has ended, without waiting. 0: it has, see `out`;
/// -EAGAIN: it has not; -ECHILD: it has, and nothing tells how.
int look(process_state& p, int fd, exit_status& out) noexcept;

/// What it used. 0; -EAGAIN: it has not ended; -ECHILD: nothing tells.
int look_at_resources(process_state& p, int fd, process_resources& out) noexcept;

/// Sends a signal that is to end it; a process that has ended is no error.
failure end_by(process_handle& p, int signal) noexcept;
/// Whether it had not ended when a wait for that did.
bool lives_on(io_result<exit_status> const& waited) noexcept;

/// Takes over a child that has not ended and its descriptor, removes it when it has ended, and then deletes
/// `p`.
void leave_to_reaper(process_state* p, int fd) noexcept;

} // namespace unio::detail
