// src/locks/hooks.hpp: named points of the locks' protocols, where tests kill, stop or reorder processes.
//
//   step("name")    a point between two steps that other processes can see
//
// Does nothing in the library. The tests compile src/locks a second time with UNIO_LOCKS_HOOKS, and with the
// defects that tests/planted.py has.

#pragma once

namespace unio::inline v0_1::fs::hooks {

#if defined(UNIO_LOCKS_HOOKS)
inline constexpr bool are_compiled = true;
void step(char const* name) noexcept; // the test program's
#else
inline constexpr bool are_compiled = false;
constexpr void step(char const*) noexcept {}
#endif

} // namespace unio::fs::hooks
