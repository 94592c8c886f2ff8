// src/fs/tree.hpp: what the algorithms on trees share apart from the crew.

#pragma once

#include "core/failed_with.hpp"
#include "fs/crew.hpp"
#include "handle/names.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <unio/detail/error.hpp>
#include <unio/fs/tree.hpp>

#include <fcntl.h>
#include <linux/stat.h>

#include <string_view>

namespace unio::inline v0_1::fs::trees {

using unio::detail::descriptor;
using unio::detail::random_name;
using unio::detail::split_path;
using unio::detail::to_error_code;

inline std::error_code code(std::int64_t native) noexcept { return to_error_code(static_cast<int>(native)); }

/// What a whole operation returned; an error names that, and the path that it was called with.
template <class T> result<T> named(result<T> r, char const* operation, path_view path) noexcept {
  if (r.has_value()) [[likely]]
    return r;
  return unio::detail::failed_with(r.error(), operation, std::string_view(path.c_str(), path.size()));
}
/// The same with two paths: "move a to b".
template <class T>
result<T> named(result<T> r, char const* operation, path_view from, path_view to) noexcept {
  if (r.has_value()) [[likely]]
    return r;
  unio::detail::failed_object o; // both have room, as in op/call.hpp
  static constexpr char between[] = " to ";
  constexpr std::size_t half = (o.capacity - sizeof(between)) / 2;
  o.append(from.c_str(), from.size(), half);
  o.append(between);
  o.append(to.c_str(), to.size(), half);
  return unio::detail::failed_with(r.error(), operation, o);
}

/// -1 for the working directory's default path_handle.
inline int base_of(path_handle const& base) noexcept {
  return base.native_handle() < 0 ? AT_FDCWD : base.native_handle();
}

constexpr entry_kind kind_of(std::uint32_t mode) noexcept { return static_cast<entry_kind>(mode >> 12 & 15); }

/// The settings that tree_options has.
inline crew_settings settings_of(tree_options const& o, deadline d, stop_token second) noexcept {
  return {.threads = o.threads,
          .cross_mounts = o.cross_mounts,
          .stop = o.stop,
          .second_stop = second,
          .due = sys::due(d)};
}

/// Opens a file to read it, or another thing without waiting for it. Waits where another process has a lease
/// of the file, or another machine: until that has given it back, or the kernel has taken it (fcntl(2),
/// F_SETLEASE). Asks `must_end` all the time: -ECANCELED. Returns a descriptor, or a negative code.
int open_to_read(int dir, char const* name, void* asked, bool (*must_end)(void* asked) noexcept) noexcept;

/// Whether two open files have the same bytes: 1, 0, or a negative code. `must_end` is asked before each
/// piece: -ECANCELED. `buffer`, at a multiple of 8 KiB in size and of a page in memory, has room for a piece
/// of both. Does not read where neither has storage. Moves their positions. Either may be open for direct
/// I/O: -EINVAL, if that wants more alignment than a page.
int same_contents(int a, int b, std::byte* buffer, std::size_t bytes, void* asked,
                  bool (*must_end)(void* asked) noexcept) noexcept;

/// Whether two links say the same: 1, 0, or a negative code.
int same_links(int a, char const* name_a, int b, char const* name_b) noexcept;

} // namespace unio::fs::trees
