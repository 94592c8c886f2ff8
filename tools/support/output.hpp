// The standard descriptors of a command, and whether what it printed arrived.

#pragma once

namespace tools {

/// Puts something in the place of standard descriptors that are closed, so that no file opened later becomes
/// stderr. Reading from it, or writing to it, fails as it would without. A command that is run from here has
/// the descriptor closed, too.
void open_what_is_standard() noexcept;

/// Writes what stdout has in its buffer and closes its descriptor, which is when some filesystems report
/// their errors. Returns the exit status: 0, or 1 if something was lost, now or before (one line on stderr
/// says so, after the name of the command).
[[nodiscard]] int finish_output(char const* command) noexcept;

} // namespace tools
