// What is wrong, on stderr.

#pragma once

#include <cstdio>
#include <string>

/// Prints it, if it can be: whether anybody hears of it changes nothing (fmt::print would throw).
inline void complain(std::string const& what) noexcept { (void)std::fputs(what.c_str(), stderr); }
