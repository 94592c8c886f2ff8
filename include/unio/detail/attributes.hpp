// unio/detail/attributes.hpp: the operations on extended attributes as classes.

#pragma once

#include <unio/attributes.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_get_attribute : public detail::name_operation,
                                     public detail::standard_sender<async_get_attribute> {
 public:
  using result_type = io_result<mutable_buffer>;
  async_get_attribute() = default;
  async_get_attribute(handle const& h, path_view attribute, mutable_buffer value,
                      unio::deadline d = {}) noexcept;
  async_get_attribute(path_handle const& base, path_view name, path_view attribute, mutable_buffer value,
                      last_link how, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return {failed(), needed_};
    return {mutable_buffer(value_.data(), static_cast<std::size_t>(r)), static_cast<std::size_t>(r)};
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_get_attribute& op) noexcept;

  path_view attribute_;
  mutable_buffer value_;
  std::size_t needed_ = 0;
  last_link how_ = last_link::itself;
};

class UNIO_API async_set_attribute : public detail::name_operation_without_value,
                                     public detail::standard_sender<async_set_attribute> {
 public:
  async_set_attribute() = default;
  async_set_attribute(handle const& h, path_view attribute, const_buffer value, attribute_mode mode,
                      unio::deadline d = {}) noexcept;
  async_set_attribute(path_handle const& base, path_view name, path_view attribute, const_buffer value,
                      attribute_mode mode, last_link how, unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_set_attribute& op) noexcept;

  path_view attribute_;
  const_buffer value_;
  attribute_mode mode_ = attribute_mode::set;
  last_link how_ = last_link::itself;
};

class UNIO_API async_list_attributes : public detail::name_operation,
                                       public detail::standard_sender<async_list_attributes> {
 public:
  using result_type = io_result<attribute_names>;
  async_list_attributes() = default;
  async_list_attributes(handle const& h, mutable_buffer names, unio::deadline d = {}) noexcept;
  async_list_attributes(path_handle const& base, path_view name, mutable_buffer names, last_link how,
                        unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return {failed(), needed_};
    auto const n = static_cast<std::size_t>(r);
    return {attribute_names(reinterpret_cast<char const*>(names_.data()), n), n};
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_list_attributes& op) noexcept;

  mutable_buffer names_;
  std::size_t needed_ = 0;
  last_link how_ = last_link::itself;
};

class UNIO_API async_remove_attribute : public detail::name_operation_without_value,
                                        public detail::standard_sender<async_remove_attribute> {
 public:
  async_remove_attribute() = default;
  async_remove_attribute(handle const& h, path_view attribute, unio::deadline d = {}) noexcept;
  async_remove_attribute(path_handle const& base, path_view name, path_view attribute, last_link how,
                         unio::deadline d = {}) noexcept;

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_remove_attribute& op) noexcept;

  path_view attribute_;
  last_link how_ = last_link::itself;
};

UNIO_SENDER_FORMS(async_get_attribute, (handle const&, h), (path_view, attribute), (mutable_buffer, value))
UNIO_SENDER_FORMS(async_get_attribute, (path_handle const&, base), (path_view, name), (path_view, attribute),
                  (mutable_buffer, value), (last_link, how))
UNIO_FREE_VERB_FORMS(get_attribute, async_get_attribute, (path_handle const&, base), (path_view, name),
                     (path_view, attribute), (mutable_buffer, value), (last_link, how))
UNIO_SENDER_FORMS(async_set_attribute, (handle const&, h), (path_view, attribute), (const_buffer, value),
                  (attribute_mode, mode))
UNIO_SENDER_FORMS(async_set_attribute, (path_handle const&, base), (path_view, name), (path_view, attribute),
                  (const_buffer, value), (attribute_mode, mode), (last_link, how))
UNIO_FREE_VERB_FORMS(set_attribute, async_set_attribute, (path_handle const&, base), (path_view, name),
                     (path_view, attribute), (const_buffer, value), (attribute_mode, mode), (last_link, how))
UNIO_SENDER_FORMS(async_list_attributes, (handle const&, h), (mutable_buffer, names))
UNIO_SENDER_FORMS(async_list_attributes, (path_handle const&, base), (path_view, name),
                  (mutable_buffer, names), (last_link, how))
UNIO_FREE_VERB_FORMS(list_attributes, async_list_attributes, (path_handle const&, base), (path_view, name),
                     (mutable_buffer, names), (last_link, how))
UNIO_SENDER_FORMS(async_remove_attribute, (handle const&, h), (path_view, attribute))
UNIO_SENDER_FORMS(async_remove_attribute, (path_handle const&, base), (path_view, name),
                  (path_view, attribute), (last_link, how))
UNIO_FREE_VERB_FORMS(remove_attribute, async_remove_attribute, (path_handle const&, base), (path_view, name),
                     (path_view, attribute), (last_link, how))

} // namespace unio
