// Making, changing and removing names.

#include "op/name_operation.hpp"

#include <unio/path_handle.hpp>

#include <cstring>

namespace unio::inline v0_1 {

// ---- of what a handle has open ----

driver::operation_faces const& async_relink::table() noexcept {
  static constexpr operation_faces faces = op::two_names_faces<async_relink, call>("relink");
  return faces;
}
async_relink::async_relink(handle const& h, path_handle const& base, path_view name, relink_mode how,
                           unio::deadline d) noexcept
    : two_names_operation(table(), h, base, name, d), how_(how) {}

int async_relink::call(async_relink& op) noexcept {
  if (op.refused() != 0) return op.refused();
  detail::verified_name current;
  if (int const r = detail::find_name(op.fd(), current); r < 0) return r;
  return detail::rename(current.directory, current.leaf, op.to_directory(), op.to().c_str(), op.how_);
}

driver::operation_faces const& async_link_inode::table() noexcept {
  static constexpr operation_faces faces = op::two_names_faces<async_link_inode, call>("link_inode");
  return faces;
}
async_link_inode::async_link_inode(handle const& h, path_handle const& base, path_view name,
                                   unio::deadline d) noexcept
    : two_names_operation(table(), h, base, name, d) {}

int async_link_inode::call(async_link_inode& op) noexcept {
  if (op.refused() != 0) return op.refused();
  return detail::link_open_file(op.fd(), op.to_directory(), op.to().c_str());
}

driver::operation_faces const& async_unlink_inode::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_unlink_inode, call>("unlink_inode");
  return faces;
}
async_unlink_inode::async_unlink_inode(handle const& h, unio::deadline d) noexcept
    : name_operation_without_value(table(), h, d) {}

int async_unlink_inode::call(async_unlink_inode& op) noexcept {
  return op.refused() != 0 ? op.refused() : detail::unlink_current(op.fd());
}

driver::operation_faces const& async_parent_of::table() noexcept {
  static constexpr operation_faces faces = [] {
    operation_faces f = op::call_faces<async_parent_of, call>("parent_of");
    f.reclaim = [](io_operation& op) noexcept {
      if (op.outcome_value() >= 0) sys::close(op.outcome_value());
    };
    return f;
  }();
  return faces;
}
async_parent_of::async_parent_of(handle const& h, unio::deadline d) noexcept
    : name_operation(table(), h, d) {}

int async_parent_of::call(async_parent_of& op) noexcept {
  if (op.refused() != 0) return op.refused();
  detail::verified_name current;
  if (int const r = detail::find_name(op.fd(), current); r < 0) return r;
  return std::exchange(current.directory, -1);
}

async_parent_of::result_type async_parent_of::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return failed();
  return path_handle(fd);
}

// ---- of names ----

driver::operation_faces const& async_rename::table() noexcept {
  static constexpr operation_faces faces = op::two_names_faces<async_rename, call>("rename");
  return faces;
}
async_rename::async_rename(path_handle const& from_base, path_view from, path_handle const& to_base,
                           path_view to, relink_mode how, unio::deadline d) noexcept
    : two_names_operation(table(), from_base, from, to_base, to, d), how_(how) {}

int async_rename::call(async_rename& op) noexcept {
  if (op.refused() != 0) return op.refused();
  return detail::rename(op.fd(), op.name().c_str(), op.to_directory(), op.to().c_str(), op.how_);
}

driver::operation_faces const& async_unlink::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_unlink, call>("unlink", true);
  return faces;
}
async_unlink::async_unlink(path_handle const& base, path_view name, unlink_mode what,
                           unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d), what_(what) {}

int async_unlink::call(async_unlink& op) noexcept {
  if (op.refused() != 0) return op.refused();
  int const flags = op.what_ == unlink_mode::directory ? AT_REMOVEDIR : 0;
  return static_cast<int>(sys::unlinkat(op.fd(), op.name().c_str(), flags));
}

driver::operation_faces const& async_make_directory::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_make_directory, call>("make_directory", true);
  return faces;
}
async_make_directory::async_make_directory(path_handle const& base, path_view name, unsigned permissions,
                                           unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d), permissions_(permissions) {}

int async_make_directory::call(async_make_directory& op) noexcept {
  if (op.refused() != 0) return op.refused();
  return static_cast<int>(sys::mkdirat(op.fd(), op.name().c_str(), op.permissions_));
}

driver::operation_faces const& async_make_symlink::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_make_symlink, call>("make_symlink", true);
  return faces;
}
async_make_symlink::async_make_symlink(path_handle const& base, path_view name, path_view target,
                                       relink_mode how, unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d), target_(target), how_(how) {
  if (std::memchr(target.c_str(), 0, target.size()) != nullptr)
    refuse_with(detail::native(error::embedded_nul));
  if (how == relink_mode::exchange) refuse_with(-EINVAL);
}

int async_make_symlink::call(async_make_symlink& op) noexcept {
  if (op.refused() != 0) return op.refused();
  auto const make = [&](char const* name) {
    return static_cast<int>(sys::symlinkat(op.target_.c_str(), op.fd(), name));
  };
  char const* const name = op.name().c_str();
  if (op.how_ == relink_mode::no_replace) return make(name);
  std::size_t const n = detail::directory_part(name);
  if (n == op.name().size()) return n == 0 ? -ENOENT : -EISDIR;
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name, n);
  if (int const r = detail::with_random_name(sibling, n, make); r < 0) return r;
  int const r = detail::rename(op.fd(), sibling.text, op.fd(), name, relink_mode::replace);
  if (r < 0) sys::unlinkat(op.fd(), sibling.text, 0);
  return r;
}

driver::operation_faces const& async_hard_link::table() noexcept {
  static constexpr operation_faces faces = op::two_names_faces<async_hard_link, call>("hard_link");
  return faces;
}
async_hard_link::async_hard_link(path_handle const& from_base, path_view from, path_handle const& to_base,
                                 path_view to, unio::deadline d) noexcept
    : two_names_operation(table(), from_base, from, to_base, to, d) {}

int async_hard_link::call(async_hard_link& op) noexcept {
  if (op.refused() != 0) return op.refused();
  return static_cast<int>(sys::linkat(op.fd(), op.name().c_str(), op.to_directory(), op.to().c_str(), 0));
}

} // namespace unio
