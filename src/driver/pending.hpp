// src/driver/pending.hpp: what one operation looks like to somebody who asks why nothing happens.

#pragma once

#include <unio/operation.hpp>

#include <string>

namespace unio::driver {

/// Appends a line for the operation and one for each coroutine that awaits it. On the thread that runs it.
void describe(std::string& text, io_operation const& op, std::int64_t now_ns);

} // namespace unio::driver
