// src/fs/hooks.hpp: named points of the locks' protocols, where tests kill, stop or reorder processes.
//
//   step("name")    a point between two steps that other processes can see
//   defect("L1")    whether a test planted this defect of the published implementations (negative controls)
//
// Does nothing in the library. The tests compile src/fs a second time with UNIO_FS_HOOKS and link it before
// the library.

#pragma once

namespace unio::inline v0_1::fs::hooks {

#if defined(UNIO_FS_HOOKS)
inline constexpr bool are_compiled = true;
void step(char const* name) noexcept; // the test program's
bool defect(char const* id) noexcept; // the test program's
#else
inline constexpr bool are_compiled = false;
constexpr void step(char const*) noexcept {}
constexpr bool defect(char const*) noexcept { return false; }
#endif

} // namespace unio::fs::hooks
