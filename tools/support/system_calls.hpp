// How many system calls a piece of work makes. It runs in a traced child process, because a process has no
// count of its own.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace tools {

/// Marks where counting begins, and where it ends. Costs one system call that does nothing.
void mark_system_calls() noexcept;

/// Runs `work` in a traced child, and returns how many system calls all its threads made between its two
/// marks; none if tracing is not allowed, or `work` fails (returns false) or takes longer than two seconds.
///
/// Preconditions  this process has one thread
[[nodiscard]] std::optional<std::uint64_t> system_calls_of(std::function<bool()> const& work);

} // namespace tools
