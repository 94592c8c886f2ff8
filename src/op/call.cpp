// What operations that are declared by UNIO_CALL_OPERATION are made of.

#include "op/call.hpp"

#include "handle/names.hpp"

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>

namespace unio::inline v0_1::detail {

directory_number::directory_number(path_handle const& base) noexcept : fd(directory_of(base)) {}

call_base::call_base(driver::operation_faces const& table, handle const& h, unio::deadline d) noexcept
    : io_operation(table, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
call_base::call_base(driver::operation_faces const& table, directory_handle const& h,
                     unio::deadline d) noexcept
    : call_base(table, static_cast<handle const&>(h), d) {}
call_base::call_base(driver::operation_faces const& table, symlink_handle const& h, unio::deadline d) noexcept
    : call_base(table, static_cast<handle const&>(h), d) {}
call_base::call_base(driver::operation_faces const& table, path_handle const& base, unio::deadline d) noexcept
    : io_operation(table, handle_kind::path, directory_of(base), base.own_multiplexer(), d) {}

} // namespace unio::detail
