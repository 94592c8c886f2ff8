// unio/detail/socket_handle.hpp: how the operations of sockets are described.

#pragma once

#include <unio/socket_handle.hpp>

namespace unio {

inline async_connect::async_connect(socket_handle& h, endpoint const& to, unio::deadline d) noexcept
    : void_operation(detail::connect_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d), to_(to) {}
inline async_accept::async_accept(driver::operation_faces const& faces, listening_socket_handle& h,
                                  unio::deadline d) noexcept
    : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
inline async_accept::async_accept(listening_socket_handle& h, unio::deadline d) noexcept
    : async_accept(detail::accept_faces, h, d) {}
inline async_accept_many::async_accept_many(listening_socket_handle& h, unio::deadline d) noexcept
    : async_accept(detail::accept_many_faces, h, d) {
  set_multishot();
}
inline async_accept::result_type async_accept::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return detail::to_error_code(fd);
  return socket_handle(fd);
}
inline async_send_zero_copy::async_send_zero_copy(socket_handle& h, io_request<const_buffers> request,
                                                  unio::deadline d) noexcept
    : transfer_operation(detail::send_zero_copy_faces, h, request, d) {}

} // namespace unio
