// src/fs/reduce_in.hpp: reduce by an open directory and a name, for algorithms that have those.

#pragma once

#include "fs/copied.hpp"

#include <unio/fs/reduce.hpp>
#include <unio/stop_token.hpp>

namespace unio::inline v0_1::fs::trees {

inline constexpr std::string_view moved_prefix = ".unio-moved-";

/// As fs::reduce, of `name` in `folder`, which may be opened by O_PATH. `must_be_directory`: ENOTDIR for
/// anything else. A stop of either token ends it. `only`, unless that is null: what is not as it was copied
/// stays; ESTALE for `name` itself. It is called .unio-moved-… then while it is removed: no later call takes
/// that for what it may remove.
result<reduce_report> reduce_in(int folder, char const* name, bool must_be_directory, reduce_options const& o,
                                deadline d, tree_sink* sink, stop_token second,
                                copied* only = nullptr) noexcept;

/// Removes `name`, which is no directory, if `is_it(name)` says so of what has it: asked under another name,
/// so that nothing else can take its place. Otherwise it gets its name back, or keeps that in `left` if the
/// name was taken. 0; -ESTALE: it is something else; or why not.
template <class Is>
int remove_if(int folder, char const* name, char (&left)[unio::detail::longest_name + 1], Is is_it) noexcept {
  using unio::detail::rename;
  if (int const e = random_name(left, moved_prefix); e != 0) return e;
  int e = rename(folder, name, folder, left, relink_mode::no_replace);
  if (e == 0) {
    e = is_it(left) ? static_cast<int>(sys::unlinkat(folder, left, 0)) : -ESTALE;
    if (e != 0 && rename(folder, left, folder, name, relink_mode::no_replace) != 0) return e;
  }
  left[0] = '\0';
  return e;
}

} // namespace unio::fs::trees
