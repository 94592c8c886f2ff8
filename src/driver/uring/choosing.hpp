// src/driver/uring/choosing.hpp: a kernel that chooses the buffer that it reads into, among those of a ring.

#pragma once

#include "driver/buffer_slots.hpp"

namespace unio::driver {

/// Whether this kernel can, and no filter forbids it; and whether one request may bring many values
/// (sys/multishot.hpp). Tried once per process, on a ring of its own.
bool can_choose_buffers() noexcept;

/// Tells the kernel of the slots, as a group of that number: 0 or -errno. IORING_REGISTER_PBUF_RING.
int add_buffers(int ring_fd, int number, buffer_slots const& slots) noexcept;
/// Preconditions: no operation chooses among them.
void drop_buffers(int ring_fd, int number) noexcept;

} // namespace unio::driver
