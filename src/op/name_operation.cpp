// What operations on names are made of.

#include "op/name_operation.hpp"

namespace unio::inline v0_1::detail {

name_operation::name_operation(driver::operation_faces const& faces, handle const& h,
                               unio::deadline d) noexcept
    : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      refused_(h.is_open() ? 0 : -EBADF) {}

name_operation::name_operation(driver::operation_faces const& faces, path_handle const& base, path_view name,
                               unio::deadline d) noexcept
    : io_operation(faces, handle_kind::path, directory_of(base), base.own_multiplexer(), d),
      name_(name),
      refused_(name.check()),
      is_named_(true) {}

two_names_operation::two_names_operation(driver::operation_faces const& faces, handle const& h,
                                         path_handle const& to_base, path_view to, unio::deadline d) noexcept
    : name_operation_without_value(faces, h, d), to_(to), to_directory_(directory_of(to_base)) {
  refuse_with(to.check());
}

two_names_operation::two_names_operation(driver::operation_faces const& faces, path_handle const& from_base,
                                         path_view from, path_handle const& to_base, path_view to,
                                         unio::deadline d) noexcept
    : name_operation_without_value(faces, from_base, from, d), to_(to), to_directory_(directory_of(to_base)) {
  refuse_with(to.check());
}

} // namespace unio::detail
