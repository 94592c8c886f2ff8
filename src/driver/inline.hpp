// src/driver/inline.hpp: the blocking layer: perform(), and poll(2) while there is something to wait for.

#pragma once

#include <unio/operation.hpp>

namespace unio::inline v0_1::driver {

/// Runs a started operation to its end in the calling thread. Needs no ring, no thread and no multiplexer.
void run_inline(io_operation& op) noexcept;

} // namespace unio::driver
