// src/handle/guarded_maps.hpp: which memory is a map of a file, for the handler of guard_maps().

#pragma once

#include <unio/config.hpp>

#include <cstddef>

namespace unio::inline v0_1::detail {

/// Lists the memory of a map. A number for the functions below, or -1: as many as can be are listed. `cut`:
/// what was_cut() said where it was before.
int guard(std::byte const* begin, std::size_t bytes, bool cut = false) noexcept;
/// Takes it off the list. Before the memory is unmapped, or moved.
void unguard(int number) noexcept;
/// Whether the handler has put something in the place of a page of it.
bool was_cut(int number) noexcept;
/// The file is in its place again.
void forget_cut(int number) noexcept;

} // namespace unio::detail
