// unio/detail/naming.hpp: the operations on names as classes.

#pragma once

#include <unio/naming.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// One that makes a second name, relative to a second directory.
class UNIO_API two_names_operation : public name_operation_without_value {
 public:
  [[nodiscard]] path_view to() const noexcept { return to_; }
  /// The second directory, as openat(2) takes it.
  [[nodiscard]] int to_directory() const noexcept { return to_directory_; }

 protected:
  two_names_operation() = default;
  two_names_operation(driver::operation_faces const& faces, handle const& h, path_handle const& to_base,
                      path_view to, unio::deadline d) noexcept;
  two_names_operation(driver::operation_faces const& faces, path_handle const& from_base, path_view from,
                      path_handle const& to_base, path_view to, unio::deadline d) noexcept;

 private:
  path_view to_;
  int to_directory_ = -1;
};

} // namespace detail

class UNIO_API async_relink : public detail::two_names_operation,
                              public detail::standard_sender<async_relink> {
 public:
  async_relink() = default;
  async_relink(handle const& h, path_handle const& base, path_view name, relink_mode how,
               unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_relink& op) noexcept;

  relink_mode how_ = relink_mode::replace;
};

class UNIO_API async_link_inode : public detail::two_names_operation,
                                  public detail::standard_sender<async_link_inode> {
 public:
  async_link_inode() = default;
  async_link_inode(handle const& h, path_handle const& base, path_view name, unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_link_inode& op) noexcept;
};

class UNIO_API async_unlink_inode : public detail::name_operation_without_value,
                                    public detail::standard_sender<async_unlink_inode> {
 public:
  async_unlink_inode() = default;
  explicit async_unlink_inode(handle const& h, unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_unlink_inode& op) noexcept;
};

class UNIO_API async_rename : public detail::two_names_operation,
                              public detail::standard_sender<async_rename> {
 public:
  async_rename() = default;
  async_rename(path_handle const& from_base, path_view from, path_handle const& to_base, path_view to,
               relink_mode how, unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_rename& op) noexcept;

  relink_mode how_ = relink_mode::replace;
};

class UNIO_API async_unlink : public detail::name_operation_without_value,
                              public detail::standard_sender<async_unlink> {
 public:
  async_unlink() = default;
  async_unlink(path_handle const& base, path_view name, unlink_mode what, unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_unlink& op) noexcept;

  unlink_mode what_ = unlink_mode::file;
};

class UNIO_API async_make_directory : public detail::name_operation_without_value,
                                      public detail::standard_sender<async_make_directory> {
 public:
  async_make_directory() = default;
  async_make_directory(path_handle const& base, path_view name, unsigned permissions,
                       unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_make_directory& op) noexcept;

  unsigned permissions_ = 0;
};

class UNIO_API async_make_symlink : public detail::name_operation_without_value,
                                    public detail::standard_sender<async_make_symlink> {
 public:
  async_make_symlink() = default;
  async_make_symlink(path_handle const& base, path_view name, path_view target, relink_mode how,
                     unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_make_symlink& op) noexcept;

  path_view target_;
  relink_mode how_ = relink_mode::no_replace;
};

class UNIO_API async_hard_link : public detail::two_names_operation,
                                 public detail::standard_sender<async_hard_link> {
 public:
  async_hard_link() = default;
  async_hard_link(path_handle const& from_base, path_view from, path_handle const& to_base, path_view to,
                  unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_hard_link& op) noexcept;
};

UNIO_SENDER_FORMS(async_relink, (handle const&, h), (path_handle const&, base), (path_view, name),
                  (relink_mode, how))
UNIO_SENDER_FORMS(async_link_inode, (handle const&, h), (path_handle const&, base), (path_view, name))
UNIO_SENDER_FORMS(async_unlink_inode, (handle const&, h))

UNIO_SENDER_FORMS(async_rename, (path_handle const&, from_base), (path_view, from),
                  (path_handle const&, to_base), (path_view, to), (relink_mode, how))
UNIO_FREE_VERB_FORMS(rename, async_rename, (path_handle const&, from_base), (path_view, from),
                     (path_handle const&, to_base), (path_view, to), (relink_mode, how))
UNIO_SENDER_FORMS(async_unlink, (path_handle const&, base), (path_view, name), (unlink_mode, what))
UNIO_FREE_VERB_FORMS(unlink, async_unlink, (path_handle const&, base), (path_view, name), (unlink_mode, what))
UNIO_SENDER_FORMS(async_make_directory, (path_handle const&, base), (path_view, name),
                  (unsigned, permissions))
UNIO_FREE_VERB_FORMS(make_directory, async_make_directory, (path_handle const&, base), (path_view, name),
                     (unsigned, permissions))
UNIO_SENDER_FORMS(async_make_symlink, (path_handle const&, base), (path_view, name), (path_view, target),
                  (relink_mode, how))
UNIO_FREE_VERB_FORMS(make_symlink, async_make_symlink, (path_handle const&, base), (path_view, name),
                     (path_view, target), (relink_mode, how))
UNIO_SENDER_FORMS(async_hard_link, (path_handle const&, from_base), (path_view, from),
                  (path_handle const&, to_base), (path_view, to))
UNIO_FREE_VERB_FORMS(hard_link, async_hard_link, (path_handle const&, from_base), (path_view, from),
                     (path_handle const&, to_base), (path_view, to))

} // namespace unio
