// src/driver/inline.hpp: the blocking layer: perform(), and poll(2) while there is something to wait for.

#pragma once

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1::driver {

/// Runs a started operation to its end in the calling thread. Needs no ring, no thread and no multiplexer.
void run_inline(io_operation& op) noexcept;

/// Whether `own`, the calling thread's own multiplexer, has anything to run while a blocking call waits.
[[nodiscard]] bool has_to_move(io_multiplexer& own) noexcept;
/// The same as run_inline(), but while the operation has to wait `own` runs it, and its other operations; if
/// `own` cannot go on, it waits without. The operation may have finished, and been notified, before this
/// returns.
void run_driving(io_operation& op, io_multiplexer& own) noexcept;

} // namespace unio::driver
