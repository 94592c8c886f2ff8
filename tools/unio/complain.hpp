// Messages on stderr.

#pragma once

#include <cstdio>
#include <string>

/// Prints it, if possible: a failure to print changes nothing (fmt::print would throw).
inline void complain(std::string const& what) noexcept { (void)std::fputs(what.c_str(), stderr); }
