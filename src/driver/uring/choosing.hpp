// src/driver/uring/choosing.hpp: memory that a ring's kernel knows: buffers from which it chooses, and
// registered memory.

#pragma once

#include "driver/buffer_slots.hpp"
#include "driver/registered_memory.hpp"
#include "driver/uring/ring.hpp"

namespace unio::inline v0_1::driver {

/// Buffers from which the kernel chooses.
struct buffer_chooser {
  /// Whether this kernel can, and no filter forbids it; and whether one request may bring many values
  /// (sys/multishot.hpp). Tried once per process, on a ring of its own; again, if it could not be tried.
  enum class answer : std::uint8_t { unknown, no, yes };
  answer (*can)() noexcept;
  /// The number under which the ring's kernel knows the slots of a source, which it is told of first; or
  /// buffer_groups::none. `may_choose` becomes false where it refuses them: memory that may be locked, say.
  int (*find)(buffer_groups& of_ring, int ring_fd, buffer_source& source, bool& may_choose) noexcept;
};
/// Null before a source of buffers is made (let_rings_choose): a program that makes none has none of this.
extern constinit std::atomic<buffer_chooser const*> chooser;
void set_chooser() noexcept;

/// Where pieces of memory are registered with a ring. Made with IORING_RSRC_REGISTER_SPARSE (Linux 5.19).
/// What fork gives a child are copies: pinned pages stay the parent's (Linux 5.12, mm/memory.c,
/// copy_present_page).
memory_table memory_table_of(ring& r) noexcept;

} // namespace unio::driver
