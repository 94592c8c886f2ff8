// The standard descriptors of a command, and whether what it printed arrived.

#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tools {

/// Opens placeholders for closed standard descriptors, so that no file opened later becomes stderr. Reading
/// from them, or writing to them, fails as it would without. A command that is run from here has the
/// descriptor closed, too.
void open_what_is_standard() noexcept;

/// Prints it on stdout, if possible: finish_output() tells that it was not (fmt::print would throw).
void print(std::string_view text) noexcept;
template <class First, class... Rest>
void print(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  print(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// Flushes and closes stdout, which is when some filesystems report their errors. Returns the exit status: 0,
/// or 1 if something was lost, now or before (then prints one line on stderr, after the name of the command).
[[nodiscard]] int finish_output(char const* command) noexcept;

} // namespace tools
