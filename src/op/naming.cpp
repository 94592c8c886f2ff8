// Making, changing and removing names.

#include "handle/names.hpp"
#include "op/call.hpp"

#include <unio/path_handle.hpp>

#include <fcntl.h>

#include <cstring>

namespace unio::inline v0_1::op {
namespace {

// ---- of what a handle has open ----

int relink(int fd, int base, path_view name, relink_mode how) noexcept {
  detail::verified_name current;
  if (int const r = detail::find_name(fd, current); r < 0) return r;
  return detail::rename(current.directory, current.leaf, base, name.c_str(), how);
}

int link_inode(int fd, int base, path_view name) noexcept {
  return detail::link_open_file(fd, base, name.c_str());
}

int unlink_inode(int fd) noexcept { return detail::unlink_current(fd); }

int parent_of(int fd) noexcept {
  detail::verified_name current;
  if (int const r = detail::find_name(fd, current); r < 0) return r;
  return std::exchange(current.directory, -1);
}

// ---- of names ----

int rename(int from_base, path_view from, int to_base, path_view to, relink_mode how) noexcept {
  return detail::rename(from_base, from.c_str(), to_base, to.c_str(), how);
}

int unlink(int base, path_view name, unlink_mode what) noexcept {
  int const flags = what == unlink_mode::directory ? AT_REMOVEDIR : 0;
  return static_cast<int>(sys::unlinkat(base, name.c_str(), flags));
}

int make_directory(int base, path_view name, unsigned permissions) noexcept {
  return static_cast<int>(sys::mkdirat(base, name.c_str(), permissions));
}

int make_symlink(int base, path_view name, path_view target, relink_mode how) noexcept {
  if (std::memchr(target.c_str(), 0, target.size()) != nullptr) return detail::native(error::embedded_nul);
  if (how == relink_mode::exchange) return -EINVAL;
  auto const make = [&](char const* at) {
    return static_cast<int>(sys::symlinkat(target.c_str(), base, at));
  };
  if (how == relink_mode::no_replace) return make(name.c_str());
  std::size_t const n = detail::directory_part(name.c_str());
  if (n == name.size()) return n == 0 ? -ENOENT : -EISDIR;
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name.c_str(), n);
  if (int const r = detail::with_random_name(sibling, n, make); r < 0) return r;
  int const r = detail::rename(base, sibling.text, base, name.c_str(), relink_mode::replace);
  if (r < 0) sys::unlinkat(base, sibling.text, 0);
  return r;
}

int hard_link(int from_base, path_view from, int to_base, path_view to) noexcept {
  return static_cast<int>(sys::linkat(from_base, from.c_str(), to_base, to.c_str(), 0));
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_relink::table_ =
    op::call_faces<async_relink, op::relink>("relink", true);
constinit operation_faces const async_link_inode::table_ =
    op::call_faces<async_link_inode, op::link_inode>("link_inode", true);
constinit operation_faces const async_unlink_inode::table_ =
    op::call_faces<async_unlink_inode, op::unlink_inode>("unlink_inode");
constinit operation_faces const async_parent_of::table_ =
    op::call_faces<async_parent_of, op::parent_of>("parent_of");
constinit operation_faces const async_rename::table_ =
    op::call_faces<async_rename, op::rename>("rename", true);
constinit operation_faces const async_unlink::table_ =
    op::call_faces<async_unlink, op::unlink>("unlink", true);
constinit operation_faces const async_make_directory::table_ =
    op::call_faces<async_make_directory, op::make_directory>("make_directory", true);
constinit operation_faces const async_make_symlink::table_ =
    op::call_faces<async_make_symlink, op::make_symlink>("make_symlink", true);
constinit operation_faces const async_hard_link::table_ =
    op::call_faces<async_hard_link, op::hard_link>("hard_link", true);

} // namespace unio
