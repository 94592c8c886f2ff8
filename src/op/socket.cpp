// async_socket: a socket that is not connected.

#include "handle/sockets.hpp"
#include "op/call.hpp"

#include <unio/socket_handle.hpp>

#include <sys/socket.h>

namespace unio::inline v0_1::op {
namespace {

int socket(detail::no_handle, address_family family) noexcept {
  return detail::sockets::make_socket(family, SOCK_STREAM);
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_socket::table_ =
    op::call_faces<async_socket, op::socket, op::socket>("socket");

} // namespace unio
