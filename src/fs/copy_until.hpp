// src/fs/copy_until.hpp: clone_or_copy on the calling thread, for what ends with a copy.

#pragma once

#include "fs/copied.hpp"

#include <unio/fs/copy.hpp>

namespace unio::inline v0_1::fs::trees {

/// Of names next to the target, for a while.
inline constexpr char random_prefix[] = ".unio-copy-";

/// As fs::clone_or_copy. A stop of either token ends it. The error does not name the operation. Notes in
/// `noted`, unless that is null, what it has copied, the source itself by the key 0.
result<copy_report> copy_until(path_handle const& from_base, path_view from, path_handle const& to_base,
                               path_view to, copy_options const& o, deadline d, tree_sink* sink,
                               stop_token second, copied* noted = nullptr) noexcept;

} // namespace unio::fs::trees
