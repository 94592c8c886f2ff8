// src/handle/launch.hpp: a child between its beginning and its program.
//
// The child shares this process's memory while the thread that launched it sleeps (CLONE_VM, CLONE_VFORK), so
// that nothing is copied. It makes plain system calls, writes into its plan and nowhere else, allocates
// nothing and takes no lock. Where a filter refuses such a child, and under sanitizers, which lose track in
// it, a forked one runs the same code and reports through a socket.

#pragma once

#include <unio/process_handle.hpp>

#include <cstdint>

namespace unio::inline v0_1::detail {

/// Everything that a child is to become: made beforehand, in the parent.
struct launch_plan {
  static constexpr int most_passed = 64;
  // What a descriptor of the child is made of, other than of one of the parent's.
  static constexpr int inherited = -1, null = -2, merged = -3;

  char const* program = nullptr;
  char const* search = nullptr; ///< PATH, if `program` is to be looked for
  char* candidate = nullptr;    ///< room for a path
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int base = -1;             ///< what `program` is relative to; < 0: the working directory
  bool is_open_base = false; ///< the caller's
  int sources[3 + most_passed] = {inherited, inherited, inherited};
  int count = 3; ///< of sources
  int working_base = -1;
  char const* working_directory = nullptr;
  process_group group = process_group::inherited;
  bool inherits_signals = false;
  std::uint64_t mask = 0; ///< of signals, which it then has
  int signal_at_parents_death = 0;
  int parent = 0;

  // Where it failed, and with what.
  launch_step step = launch_step::none;
  int error = 0;
};

struct launched_child {
  int id;
  int fd; ///< close-on-exec
};

/// Begins a child and waits until it executes its program. 0, or a negative code, and plan.step: then there
/// is no child.
int begin_child(launch_plan& plan, launched_child& out) noexcept;

} // namespace unio::detail
