// What operations that are declared by UNIO_OPERATION are made of.

#include "handle/names.hpp"

#include <unio/path_handle.hpp>

namespace unio::inline v0_1::detail {

directory_number::directory_number(path_handle const& base) noexcept : fd(directory_of(base)) {}

operation_on::operation_on(driver::operation_faces const& table, handle const& h, unio::deadline d) noexcept
    : io_operation(table, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
operation_on::operation_on(driver::operation_faces const& table, path_handle const& base,
                           unio::deadline d) noexcept
    : io_operation(table, handle_kind::path, directory_of(base), base.own_multiplexer(), d) {}

} // namespace unio::detail
