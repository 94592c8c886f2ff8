// Sockets that listen for sequenced Unix connections.

#include "handle/adopt.hpp"
#include "handle/sockets.hpp"

#include <unio/listening_datagram_handle.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace unio::inline v0_1 {

using namespace detail::sockets;

static_assert(sizeof(listening_datagram_handle) == 16);

result<listening_datagram_handle> listening_datagram_handle::listen(endpoint const& at,
                                                                    int backlog) noexcept {
  if (at.family() != address_family::unix_path) return detail::to_error_code(-EAFNOSUPPORT);
  int const fd = make_socket(at.family(), SOCK_SEQPACKET);
  if (fd < 0) return detail::to_error_code(fd);
  listening_datagram_handle made(fd);
  if (result<void> const r = done(bind_to(fd, at)); !r) return r.error();
  if (result<void> const r = done(sys::listen(fd, backlog)); !r) {
    if (!at.is_abstract() && !at.path().empty())
      sys::unlinkat(AT_FDCWD, static_cast<sockaddr_un const*>(at.data())->sun_path, 0);
    return r.error();
  }
  return made;
}

result<listening_datagram_handle> listening_datagram_handle::adopt(int fd) noexcept {
  result<detail::socket_nature> const is = detail::nature_of_socket(fd);
  if (!is) return is.error();
  if (is->type != SOCK_SEQPACKET) return detail::to_error_code(-EPROTOTYPE);
  if (!is->listens) return detail::to_error_code(-EINVAL);
  std::int64_t flags = 0;
  int const own = detail::take_over(fd, false, flags);
  if (own < 0) return detail::to_error_code(own);
  return listening_datagram_handle(own);
}

result<endpoint> listening_datagram_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname);
}

} // namespace unio
