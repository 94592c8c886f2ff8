// src/fs/tree_copier.hpp: what is below a directory, copied into another by a crew.

#pragma once

#include "fs/file_copier.hpp"

namespace unio::inline v0_1::fs::trees {

/// Copies what is in `from` into `to`, and the metadata of both; closes them. `copy`: the inode of `to`;
/// `is_continued`: it may have names already. Returns 0, or a negative code that ended it; what is not in the
/// copy is in f.report and f.missing.
int copy_tree_into(crew_settings const& s, file_copier& f, inode_id copy, bool is_continued, int from,
                   int to) noexcept;

} // namespace unio::fs::trees
