// Sockets: making them, naming them, and their options.

#include "handle/sockets.hpp"
#include "sys/descriptors.hpp"

#include <unio/socket_handle.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

namespace unio {

using namespace detail::sockets;

static_assert(sizeof(socket_handle) == 16 && sizeof(listening_socket_handle) == 16);

namespace {

std::int64_t bind_and_listen(int fd, endpoint const& at, listen_options const& options) noexcept {
  std::int64_t r = 0;
  if (at.family() != address_family::unix_path) { // SO_REUSEADDR means nothing for paths
    if (r >= 0 && options.reuse_address) r = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (r >= 0 && options.reuse_port) r = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  }
  if (r >= 0 && at.family() == address_family::ipv6)
    r = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only ? 1 : 0);
  if (r >= 0) r = bind_to(fd, at);
  if (r < 0) return r;

  r = sys::listen(fd, options.backlog);
  if (r < 0 && at.family() == address_family::unix_path && !at.is_abstract())
    sys::unlinkat(AT_FDCWD, static_cast<sockaddr_un const*>(at.data())->sun_path, 0);
  return r;
}

} // namespace

result<socket_handle> socket_handle::create(address_family family) noexcept {
  int const fd = make_socket(family, SOCK_STREAM);
  if (fd < 0) return detail::to_error_code(fd);
  return socket_handle(fd);
}

result<socket_handle> socket_handle::connected_to(endpoint const& to, deadline d) noexcept {
  result<socket_handle> made = create(to.family());
  if (!made) return made;
  if (io_result<void> const r = made->connect(to, d); !r) return r.error();
  return made;
}

result<socket_pair> socket_handle::pair() noexcept {
  int ends[2];
  std::int64_t const r = sys::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
  if (r < 0) return detail::to_error_code(static_cast<int>(r));
  int const first = sys::above_standard(ends[0]);
  int const second = sys::above_standard(ends[1]);
  socket_pair both{socket_handle(first), socket_handle(second)};
  if (first < 0 || second < 0) return detail::to_error_code(std::min(first, second));
  return both;
}

result<endpoint> socket_handle::local_endpoint() const noexcept { return name_of(fd_, sys::getsockname); }
result<endpoint> socket_handle::remote_endpoint() const noexcept { return name_of(fd_, sys::getpeername); }

result<void> socket_handle::bind(endpoint const& local) noexcept { return done(bind_to(fd_, local)); }

result<void> socket_handle::shutdown(side which) noexcept {
  int const how = which == side::receive ? SHUT_RD : which == side::send ? SHUT_WR : SHUT_RDWR;
  return done(sys::shutdown(fd_, how));
}

result<void> socket_handle::no_delay(bool on) noexcept {
  return done(set_option(fd_, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0));
}
result<void> socket_handle::keep_alive(bool on) noexcept {
  return done(set_option(fd_, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0));
}
result<void> socket_handle::linger(int seconds) noexcept {
  ::linger const value{.l_onoff = seconds >= 0 ? 1 : 0, .l_linger = seconds >= 0 ? seconds : 0};
  return done(set_option(fd_, SOL_SOCKET, SO_LINGER, value));
}
result<void> socket_handle::send_buffer(int bytes) noexcept {
  return done(set_option(fd_, SOL_SOCKET, SO_SNDBUF, bytes));
}
result<void> socket_handle::receive_buffer(int bytes) noexcept {
  return done(set_option(fd_, SOL_SOCKET, SO_RCVBUF, bytes));
}
result<int> socket_handle::send_buffer() const noexcept { return int_option(fd_, SOL_SOCKET, SO_SNDBUF); }
result<int> socket_handle::receive_buffer() const noexcept { return int_option(fd_, SOL_SOCKET, SO_RCVBUF); }

result<listening_socket_handle> listening_socket_handle::listen(endpoint const& at,
                                                                listen_options options) noexcept {
  int const fd = make_socket(at.family(), SOCK_STREAM);
  if (fd < 0) return detail::to_error_code(fd);
  if (std::int64_t const r = bind_and_listen(fd, at, options); r < 0) {
    sys::close(fd);
    return detail::to_error_code(static_cast<int>(r));
  }
  return listening_socket_handle(fd);
}

result<endpoint> listening_socket_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname);
}

} // namespace unio
