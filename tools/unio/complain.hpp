// Messages on stderr.

#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

/// Prints it, if possible: a failure to print changes nothing (fmt::print would throw).
inline void complain(std::string const& what) noexcept { (void)std::fputs(what.c_str(), stderr); }

/// Prints "unio: ABOUT: WHAT". Returns `status`, which the command then ends with.
inline int say(int status, std::string_view about, std::string_view what) {
  complain(fmt::format("unio: {}: {}\n", about, what));
  return status;
}
