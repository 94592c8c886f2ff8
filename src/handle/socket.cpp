// Sockets: making them, naming them, and their options.

#include "core/pauses.hpp"
#include "handle/adopt.hpp"
#include "handle/sockets.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <unio/socket_handle.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace unio::inline v0_1 {

using namespace detail::sockets;

static_assert(sizeof(socket_handle) == 16 && sizeof(listening_socket_handle) == 16);

namespace {

using detail::option_id;

std::int64_t bind_and_listen(int fd, endpoint const& at, listen_options const& o) noexcept {
  bool const is_path = at.family() == address_family::unix_path; // SO_REUSEADDR and such mean nothing for it
  options_of options(fd);
  if (!is_path) {
    options.set(option_id::reuse_address, o.reuse_address)
        .set(option_id::reuse_port, o.reuse_port)
        .set(option_id::transparent, o.transparent)
        .set(option_id::free_bind, o.free_bind)
        .set(option_id::fast_open, o.fast_open)
        .set(option_id::defer_accept, std::chrono::microseconds(o.defer_accept))
        .set(option_id::device, o.device);
  }
  std::int64_t r = options.set(option_id::receive_buffer, o.receive_buffer).error();
  if (r >= 0 && at.family() == address_family::ipv6)
    r = set_option(fd, option_id::ipv6_only, o.ipv6_only ? 1 : 0);
  if (r >= 0) r = bind_to(fd, at);
  if (r < 0) return r;

  r = sys::listen(fd, o.backlog);
  if (r < 0 && is_path && !at.is_abstract() && !at.path().empty())
    sys::unlinkat(AT_FDCWD, static_cast<sockaddr_un const*>(at.data())->sun_path, 0);
  return r;
}

std::int64_t set_up(int fd, address_family family, connect_options const& o) noexcept {
  bool const has_address = o.from.family() != address_family::unspecified;
  bool const is_path = family == address_family::unix_path;
  options_of options(fd);
  if (!is_path) {
    options.set(option_id::reuse_address, o.reuse_address)
        .set(option_id::transparent, o.transparent)
        .set(option_id::fast_open_connect, o.fast_open)
        .set(option_id::device, o.device)
        .set(option_id::bind_without_port, has_address && o.from.port() == 0);
  }
  std::int64_t const r = options.set(option_id::receive_buffer, o.receive_buffer).error();
  return r >= 0 && has_address ? bind_to(fd, o.from) : r;
}

} // namespace

result<socket_handle> socket_handle::create(address_family family) noexcept {
  int const fd = make_socket(family, SOCK_STREAM);
  if (fd < 0) return detail::failed(fd, "create");
  return socket_handle(fd);
}

result<socket_handle> socket_handle::create(address_family family, connect_options const& options) noexcept {
  result<socket_handle> made = create(family);
  if (!made) return made;
  if (std::int64_t const r = set_up(made->fd_, family, options); r < 0) {
    if (options.from.family() != address_family::unspecified) return failed_at(r, "create", options.from);
    return detail::failed(r, "create");
  }
  made->set_multiplexer(options.multiplexer);
  return made;
}

result<socket_handle> socket_handle::connected_to(endpoint const& to, deadline d) noexcept {
  return connected_to(to, connect_options(), d);
}

result<socket_handle> socket_handle::connected_to(endpoint const& to, connect_options const& options,
                                                  deadline d) noexcept {
  return detail::blocking(async_connected(to, options, d));
}

result<socket_handle> socket_handle::adopt(int fd) noexcept {
  int const own = detail::take_over_socket(fd, handle_kind::stream_socket);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return socket_handle(own);
}

result<socket_pair> socket_handle::pair() noexcept {
  int ends[2];
  std::int64_t const r = sys::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
  if (r < 0) return detail::failed(r, "pair");
  int const first = sys::above_standard(ends[0]);
  int const second = sys::above_standard(ends[1]);
  socket_pair both{socket_handle(first), socket_handle(second)};
  if (first < 0 || second < 0) return detail::failed(std::min(first, second), "pair");
  return both;
}

result<endpoint> socket_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname, "local_endpoint");
}
result<endpoint> socket_handle::remote_endpoint() const noexcept {
  return name_of(fd_, sys::getpeername, "remote_endpoint");
}

result<void> socket_handle::bind(endpoint const& local) noexcept {
  if (std::int64_t const r = bind_to(fd_, local); r < 0) return failed_at(r, "bind", local);
  return {};
}

result<listening_socket_handle> listening_socket_handle::listen(endpoint const& at,
                                                                listen_options options) noexcept {
  bool const is_file = at.family() == address_family::unix_path && !at.is_abstract();
  std::int64_t until = 0;
  for (int tries = 0;; ++tries) {
    int const fd = make_socket(at.family(), SOCK_STREAM);
    if (fd < 0) return failed_at(fd, "listen", at);
    std::int64_t const r = bind_and_listen(fd, at, options);
    if (r >= 0) return listening_socket_handle(fd);
    sys::close(fd);
    if (r != -EADDRINUSE || is_file) return failed_at(r, "listen", at);
    if (tries == 0) until = sys::due(options.wait_for_address);
    std::int64_t const left = until - sys::steady_now();
    if (left <= 0) return failed_at(r, "listen", at);
    std::int64_t const pause = std::min(left, std::int64_t{detail::retry_ms(tries)} * 1'000'000);
    timespec const t{.tv_sec = 0, .tv_nsec = pause};
    (void)sys::poll(nullptr, 0, &t);
  }
}

result<listening_socket_handle> listening_socket_handle::adopt(int fd) noexcept {
  int const own = detail::take_over_socket(fd, handle_kind::listening_socket);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return listening_socket_handle(own);
}

result<endpoint> listening_socket_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname, "local_endpoint");
}

} // namespace unio
