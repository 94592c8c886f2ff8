// src/driver/ended.hpp: operations that no engine can run.

#pragma once

#include <unio/operation.hpp>

namespace unio::inline v0_1::driver {

/// Ends one that was just started, with a negative native code. Its receiver is called before the outermost
/// such call of this thread returns, and never from inside of another such receiver: handlers that start the
/// next one use constant stack.
void end_at_once(io_operation& op, int code) noexcept;

} // namespace unio::driver
