// src/driver/uring/choosing.hpp: memory that a ring's kernel knows: buffers from which it chooses, and
// registered memory.

#pragma once

#include "driver/buffer_slots.hpp"
#include "driver/registered_memory.hpp"
#include "driver/uring/ring.hpp"

namespace unio::inline v0_1::driver {

/// Whether this kernel can, and no filter forbids it; and whether one request may bring many values
/// (sys/multishot.hpp). Tried once per process, on a ring of its own.
bool can_choose_buffers() noexcept;

/// Tells the kernel of the slots, as a group of that number: 0 or -errno. IORING_REGISTER_PBUF_RING.
int add_buffers(int ring_fd, int number, buffer_slots const& slots) noexcept;
/// Preconditions: no operation chooses among them.
void drop_buffers(int ring_fd, int number) noexcept;

/// Where pieces of memory are registered with a ring. Made with IORING_RSRC_REGISTER_SPARSE (Linux 5.19).
/// What fork gives a child are copies: pinned pages stay the parent's (Linux 5.12, mm/memory.c,
/// copy_present_page).
memory_table memory_table_of(ring& r) noexcept;

} // namespace unio::driver
