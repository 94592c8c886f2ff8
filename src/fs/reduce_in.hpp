// src/fs/reduce_in.hpp: reduce by an open directory and a name, for algorithms that have those.

#pragma once

#include <unio/fs/reduce.hpp>
#include <unio/stop_token.hpp>

namespace unio::inline v0_1::fs::trees {

/// As fs::reduce, of `name` in `folder`, which may be opened by O_PATH. `must_be_directory`: ENOTDIR for
/// anything else. A stop of either token ends it.
result<reduce_report> reduce_in(int folder, char const* name, bool must_be_directory, reduce_options const& o,
                                deadline d, tree_sink* sink, stop_token second) noexcept;

} // namespace unio::fs::trees
