// unio/detail/metadata.hpp: the operations on metadata as classes.

#pragma once

#include <unio/metadata.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// An operation on what a handle has open, or on what a name leads to from a directory. Its constructors are
/// in src/op, so that no header needs the handles.
class UNIO_API name_operation : public io_operation {
 public:
  /// Empty: of what the handle has open.
  [[nodiscard]] path_view name() const noexcept { return name_; }

 protected:
  name_operation() = default;
  name_operation(driver::operation_faces const& faces, handle const& h, unio::deadline d) noexcept;
  name_operation(driver::operation_faces const& faces, path_handle const& base, path_view name,
                 unio::deadline d) noexcept;
  [[nodiscard]] int refused() const noexcept { return refused_; }
  /// The first reason counts.
  void refuse_with(int native_code) noexcept {
    if (refused_ == 0) refused_ = native_code;
  }
  [[nodiscard]] bool is_named() const noexcept { return is_named_; }

 private:
  path_view name_;
  int refused_ = 0; // why the arguments are invalid: a negative code, or 0
  bool is_named_ = false;
};

/// One that yields nothing but success.
class name_operation_without_value : public name_operation {
 public:
  using result_type = io_result<void>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {};
  }

 protected:
  using name_operation::name_operation;
};

} // namespace detail

class UNIO_API async_stat : public detail::name_operation, public detail::standard_sender<async_stat> {
 public:
  using result_type = io_result<metadata>;
  async_stat() = default;
  async_stat(handle const& h, stat_fields wanted, unio::deadline d = {}) noexcept;
  async_stat(path_handle const& base, path_view name, stat_fields wanted, last_link how,
             unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return value_;
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_stat& op) noexcept;
  static int at_once(async_stat& op) noexcept;

  metadata value_;
  stat_fields wanted_ = stat_fields::none;
  last_link how_ = last_link::itself;
};

class UNIO_API async_set_metadata : public detail::name_operation_without_value,
                                    public detail::standard_sender<async_set_metadata> {
 public:
  async_set_metadata() = default;
  async_set_metadata(handle const& h, metadata_change const& change, unio::deadline d = {}) noexcept;
  async_set_metadata(path_handle const& base, path_view name, metadata_change const& change, last_link how,
                     unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_set_metadata& op) noexcept;
  [[nodiscard]] int flags() const noexcept;
  [[nodiscard]] int set_permissions() const noexcept;
  [[nodiscard]] int set_times() const noexcept;

  metadata_change change_;
  last_link how_ = last_link::itself;
};

class UNIO_API async_stat_volume : public detail::name_operation,
                                   public detail::standard_sender<async_stat_volume> {
 public:
  using result_type = io_result<volume>;
  async_stat_volume() = default;
  explicit async_stat_volume(handle const& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return value_;
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_stat_volume& op) noexcept;

  volume value_;
};

UNIO_SENDER_FORMS(async_stat, (handle const&, h), (stat_fields, wanted))
UNIO_SENDER_FORMS(async_stat, (path_handle const&, base), (path_view, name), (stat_fields, wanted),
                  (last_link, how))
UNIO_FREE_VERB_FORMS(stat, async_stat, (path_handle const&, base), (path_view, name), (stat_fields, wanted),
                     (last_link, how))
UNIO_SENDER_FORMS(async_set_metadata, (handle const&, h), (metadata_change const&, change))
UNIO_SENDER_FORMS(async_set_metadata, (path_handle const&, base), (path_view, name),
                  (metadata_change const&, change), (last_link, how))
UNIO_FREE_VERB_FORMS(set_metadata, async_set_metadata, (path_handle const&, base), (path_view, name),
                     (metadata_change const&, change), (last_link, how))
UNIO_SENDER_FORMS(async_stat_volume, (handle const&, h))

/// What `name` is itself, as stat(2) has it.
inline io_result<metadata> stat(path_handle const& base, path_view name) noexcept {
  return stat(base, name, stat_fields::basic, last_link::itself);
}

} // namespace unio
