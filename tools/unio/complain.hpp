// Messages on stderr.

#pragma once

#include "src/core/escaped.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

/// As it may stand in a message: what comes from outside (names of files, arguments, what a peer sent) must
/// neither forge a line nor command the terminal.
using unio::detail::escaped;

/// Prints it, if possible: a failure to print changes nothing (fmt::print would throw).
inline void complain(std::string const& what) noexcept { (void)std::fputs(what.c_str(), stderr); }

/// Prints "unio: ABOUT: WHAT", ABOUT escaped, or "" if it is empty. Returns `status`, which the command then
/// ends with.
inline int say(int status, std::string_view about, std::string_view what) {
  complain(fmt::format("unio: {}: {}\n", about.empty() ? "\"\"" : escaped(about), what));
  return status;
}
