// src/fs/within.hpp: whether one directory is in another, before that is removed.

#pragma once

#include "fs/crew.hpp"

namespace unio::inline v0_1::fs::trees {

/// Whether the open directory is `what` or below it, on its way up: 0, -EINVAL, or why that is not known.
int is_in(int directory, inode_id what) noexcept;

/// Whether the open directory `what` is `name` in `folder`, or somewhere below it: 0, -EINVAL, or why that is
/// not known. Looks through the whole tree if the two are seen through different mounts of one filesystem:
/// from a mount of a part of a tree (mount(8), --bind) ".." does not lead up to the rest.
int holds(int folder, char const* name, int what, crew_settings const& s = {}) noexcept;

} // namespace unio::fs::trees
